"""The table of destructive commands of well-known programs, such as removals, overwritten disks and dropped tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from environments.approvals.command import UNKNOWN, UNSEEN, Command, Options, Word, word_set
from environments.approvals.paths import (
    device,
    mirrored,
    moved_away,
    normalized_path,
    overwritten,
    swept,
    wiped,
    wiped_beyond_here,
    written,
)
from environments.approvals.table import Table

_RULES = r"""
= it removes {}
rm zf_rm ; -r -R --recursive ; ; wiped
rm ; ; ; swept
rm unlink ; ; ; written
rimraf trash trash-put del-cli remove_directory ; ; ; wiped
tar ; --remove-files ; ; wiped
zip ; -m --move ; ; wiped
7z 7za rar ; -sdel -df ; ; wiped
Remove-Item ri rd rmdir del ; -Recurse -r /s /S ; ; wiped
Remove-Item ri rd rmdir del ; -Recurse -r /s /S ; ; ~[A-Za-z]:[\\/]?.*
= it overwrites files or devices beyond recovery
shred srm wipe scrub ; ; ; wiped
shred srm wipe scrub ; ; ; overwritten
sfill sswap
= it moves files to where they are lost (/dev/null)
mv ; ; ; last ~/dev/null
= it moves away {}
mv ; ; ; @moved moved_away
= it removes the files that it finds in {}
find ; -delete ; ; @roots found
= it removes files that the source lacks from {} (rsync --delete)
rsync ; --delete --delete-* --del ; -n ; last mirrored
= it removes files after copying them (rsync --remove-source-files)
rsync ; --remove-source-files ; -n
= it changes the owner of {}
chown chgrp setfacl ; -R --recursive ; ; @owned wiped_beyond_here
chown chgrp setfacl ; ; ; @owned opened
= it lets everyone run a program as its owner (set-user-id)
chmod ; ; ; ?sets_user
install ; -m=[4-7]??? --mode=[4-7]??? -m=*s* --mode=*s*
= it changes the permissions of {}
chmod ; -R --recursive ; ; @files wiped_beyond_here
chmod ; ; ; @files opened
= it changes the permissions of {} for everyone
chmod ; -R --recursive ; ; ?opens_to_all @files wiped
= it changes the attributes of files ({})
chattr ; ; ; wiped_beyond_here
= it changes administrator rights
setcap ; ; -v
semanage pam-auth-update ; -d -D --delete --deleteall --remove --force
visudo ; ; -c
groupmod ; -g --gid -o
addgroup: * docker|sudo|wheel|root|admin|disk|shadow
useradd adduser ; -o --non-unique -u=0 --uid=0
usermod useradd adduser gpasswd ; -G=*sudo* -G=*wheel* -G=*root* -G=*admin* --groups=*sudo* --groups=*wheel*
adduser gpasswd ; ; ; ~sudo|wheel|root|admin|shadow|disk
= it removes a user or changes a login
userdel deluser groupdel delgroup chpasswd newusers
chage ; -E -I -M --expiredate
chsh ; ; ; ~.+
passwd ; -d -l --delete --lock
passwd ; ; -S --status ; ~.+
usermod ; -L -o -p -u --lock --non-unique --password --uid

= it overwrites {}
dd dcfldd ; ; ; of= overwritten
pv ; ; ; -o,--output overwritten
= it overwrites a device or its file system ({})
mkfs mke2fs mkswap mkdosfs newfs mkntfs ; ; -n -V ; device
tune2fs resize2fs e2fsck fsck btrfstune ntfsresize ; ; -n -N -l -P ; device
xfs_repair debugfs flashrom ; -L -w -E --write --erase
wipefs ; -a -f -o --all --force --offset
fdisk sfdisk ; ; -l --list -s -x -d -J --dump --json -F --verify
sgdisk ; ; -p -i --print --info -v --verify
gdisk ; ; -l
parted ; ; -l --list print
ddrescue ; ; ; second device
qemu-img: create|convert ; ; ; device
badblocks ; -w
hdparm ; --security-erase* --trim-sector* --make-bad-sector --sanitize-*
nvme: format|sanitize|delete-ns
cfdisk blkdiscard sg_format sg_sanitize
diskutil: ... delete*|erase*|partitionDisk|zeroDisk|secureErase|reformat
= it makes encrypted data unreadable
cryptsetup: ... luksFormat|erase|luksErase|luksKillSlot|luksRemoveKey|reencrypt
= it removes a volume, a backup or its contents ({})
lvreduce lvremove vgremove pvremove
multipath ; -F -f
mdadm ; --zero-superblock --stop -S --remove --fail
zfs: rollback
lvm zpool zfs btrfs dmsetup ceph rbd rados gluster restic borg duplicity: ... _removes ; ; -n
= it unmounts all file systems
umount ; -a --all -R --recursive
= it unmounts {}
umount ; ; ; wiped_beyond_here
= it mounts something over {}
mount ; ; ; last wiped_beyond_here
= it takes memory or a device from the system ({})
swapoff
= it changes how the system boots or works
efibootmgr ; -B -b -o --delete-bootnum --bootorder
update-initramfs ; -d
grub-install rmmod insmod kldunload pivot_root switch_root
modprobe ; -r --remove
sysctl ; -w --write
sysctl ; ; ; ~[\w./-]+\s*=.*
defaults tmutil: delete*|disable
nvram ; -c -d
hostnamectl timedatectl: set-* *
hwclock date ; --set --systohc -w -s
= it turns off the protection of the system
setenforce: 0|Permissive
aa-teardown aa-disable
auditctl ; -D -e=0
csrutil: disable
spctl ; --master-disable

= it ends all processes it has permission for
kill ; ; ; ?kills_all
killall5 slay
xkill ; -a -all
tmux: kill-server
pkill skill ; ; -0 --list-name ; ~[.^$*+?\w]?[.*+^$]*|\[.*\][*+]?
= it ends all processes of a name or a user, or all but those
killall ; -u -r -v -g --user --regexp ; -l --list -V -0
pkill skill ; -v --inverse ; -0 --list-name
pkill skill ; -u -U --euid --uid ; -0 --list-name -P -g -G -t --parent --terminal ; none ~
= it ends a process that others depend on ({})
killall ; ; -l --list -V -0 ; critical
pkill skill ; ; -0 --list-name ; critical
= it ends all processes that use a file
fuser ; -k --kill ; -n=tcp -n=udp --namespace=tcp ; ~(?!(?:\d+|\ufffc)/(?:tcp|udp|sctp)$).*
= it ends the machine
shutdown ; ; -c --show
reboot poweroff halt kexec
init telinit: 0|1|6|s|S
systemctl: poweroff|reboot|halt|kexec|rescue|emergency|suspend|hibernate|soft-reboot|exit
loginctl: terminate-*|kill-*|poweroff|reboot|halt
ipmitool: chassis|power power|off|cycle|reset
racadm: serveraction
busctl dbus-send gdbus qdbus ; *PowerOff* *Reboot* *Halt* *Suspend* *Hibernate*
= it ends services that others depend on
pm2: kill
pm2 supervisorctl: delete|stop all
supervisorctl: shutdown
systemctl: isolate|set-default
systemctl: stop|disable|mask|kill ; ; ; critical_units
service rc-service ; stop ; ; first critical_units
rc-update: del|delete
launchctl: bootout|unload|remove|disable

= it overwrites or removes branches that others share (git push --force)
git: push ; -f --force --mirror -d --delete --prune ; -n
git: push ; ; -n ; ~\+.+
git: push ; ; -n ; second ~:.+
= it drops changes that are in no commit, or all untracked files
git: reset ; --hard
git: clean ; -f --force -c=clean.requireforce=false ; -n
git: checkout|switch ; -f --force --discard-changes
git: checkout ; ; ; everything
git: restore ; ; -S --staged ; everything
git: restore ; -W --worktree ; ; everything
git: submodule|worktree deinit|remove ; -f --force
git: rm ; ; -n --cached ; everything
git: stash drop|clear
= it removes commits of the history or references to them (a branch, git reflog)
git: branch ; -D
git: branch ; -f --force
hg: strip|purge ; ; -n
jj: abandon ; ; ; ~.*(?:all\(|::).*
p4: obliterate ; -y
fossil: clean ; -f --force
svn: delete|rm|del|remove ; ; ; ~\w+://.*
svn: revert ; -R --recursive ; ; everything
git: filter-branch|filter-repo ; ; -h --analyze
git-filter-repo bfg ; ; -h --analyze
git: reflog expire|delete ; ; -n
git: gc ; --prune ; --prune=2.*
git: update-ref|symbolic-ref ; -d --delete --stdin
= it removes a resource that others share or depend on ({})
gh glab hub: * delete|remove|archive
hub: delete
gh glab: api ; -X=delete --method=delete
npm cargo gem yarn pnpm: unpublish|yank
npm: token|owner|access|dist-tag|team|org revoke|rm|set

= it drops data of a database ({})
dropdb dropuser pg_dropcluster pg_resetwal
mysqladmin mariadb-admin pg_ctl: ... drop|shutdown|stop
cypher-shell ; ; ; ~(?is).*\b(?:delete|drop)\b.*
pg_restore ; -c --clean
mongorestore ; --drop
mongo mongosh manage.py django-admin rails rake ; ; ; ?drops_documents
manage.py django-admin: flush|sqlflush|reset_db|reset_schema
manage.py django-admin: migrate * zero
prisma: db push ; --force-reset --accept-data-loss
knex: migrate:rollback ; --all
alembic flask: ... downgrade base
rails rake sequelize sequelize-cli typeorm artisan console mix: ... _drops
liquibase prisma diesel sqlx supabase goose dbmate migrate hasura wp drush flyway: ... drop*|*[-:]drop|reset|clea*
= it empties a database or ends it
redis-cli valkey-cli keydb-cli ; ; ; first ~(?i:flushall|flushdb|shutdown)
redis-cli valkey-cli keydb-cli nc ncat netcat telnet socat ; ; ; ?reads_flush
redis-cli valkey-cli keydb-cli: eval|EVAL ; ; ; ~(?is).*\b(?:flushall|flushdb|shutdown).*
redis-cli valkey-cli keydb-cli: config|CONFIG set|SET dir|dbfilename
redis-cli valkey-cli keydb-cli: del|DEL|unlink|UNLINK ; ; ; unnamed
= it deletes data of a service
curl ; -X=delete --request=delete ; ; data_url
curl ; ; ; ~.*/_delete_by_query.*
wget ; --method=delete ; ; data_url
http https xh xhs: DELETE|delete ; ; ; data_url

= it removes a resource that others depend on ({})
kafka-topics kafka-consumer-groups kafka-acls ; --delete --delete-offsets
kafka-topics.sh kafka-consumer-groups.sh kafka-acls.sh ; --delete --delete-offsets
kafka-delete-records kafka-delete-records.sh ldapdelete k3s-uninstall.sh k3s-killall.sh
salt-key ; -D -d --delete --delete-all
net ; /delete /DELETE
rabbitmqctl rabbitmqadmin pulsar-admin nats etcdctl consul zkCli zkCli.sh zookeeper-shell: ... _removes
zookeeper-shell.sh ipa samba-tool vault bao argocd flux istioctl linkerd cilium velero sst bq: ... _removes
terraform tofu terragrunt pulumi cdk cdktf kops kubeadm helmfile virsh qm pct lxc incus: ... _removes
gcloud az doctl linode-cli hcloud ibmcloud oci fly flyctl vercel netlify eksctl heroku firebase: ... _removes
scw wrangler serverless sls copilot eb openstack nova prlctl govc xe multipass sam amplify: ... _removes
vultr-cli knife VBoxManage vboxmanage certbot keyctl: ... _removes
vagrant: destroy
terraform tofu terragrunt: ... apply ; -destroy --destroy
vault bao consul terraform: ... seal|step-down|leave|force-leave|disable|force-unlock
VBoxManage vboxmanage: controlvm * poweroff|reset
railway: down
helm: uninstall|delete|del|un
kubectl oc k3s k: drain
kubectl oc k3s k: delete ; -A --all --all-namespaces -f --filename -k --kustomize
kubectl oc k3s k: delete ; ; ; kinds
kubectl oc k3s k: delete ; ; ; unnamed
kubectl oc k3s k: scale|apply|replace ; --all --prune --force
kind k3d minikube: delete ; --all --purge & -a --all --purge
nomad: ... stop ; -purge
nomad: system gc
aws: * delete-*|terminate-*|deregister-*|purge-*|disable-*|detach-*|revoke-*|leave-*|stop-logging
aws: kms schedule-key-deletion
= it gives rights in a cloud ({})
aws: * authorize-*-ingress|attach-*-policy|put-*-policy|create-access-key
= it removes the contents of a bucket
aws: s3 rm|sync ; --recursive --delete
aws: s3 rb
gsutil s3cmd mc: rm ; -r -R --recursive
gsutil s3cmd mc s5cmd: rb|purge|delete|del
gsutil: rsync ; -d ; -n
s5cmd: rm ; ; ; ~.*\*.*
rclone: purge|delete|sync|deletefile|rmdirs ; ; -n
= it removes all containers, images or volumes of a kind ({} prune)
docker podman nerdctl: system|volume|network|builder prune
docker podman nerdctl: image|container|buildx prune ; -a --all
podman: system reset
docker podman nerdctl: volume|stack|service|node|secret rm|remove
docker podman nerdctl: compose ... down|rm ; -v --volumes
docker podman nerdctl docker-compose podman-compose: down|rm ; -v --volumes
docker: swarm leave
= it removes or ends containers or images without naming them
docker podman nerdctl: rm|rmi|kill|stop ; ; ; unnamed
docker podman nerdctl: container|image rm|kill|stop ; ; ; unnamed
podman: rm|rmi|kill|stop ; -a --all
podman: pod rm|kill|stop ; -a --all
= it gives a container the whole file system of the machine
docker podman nerdctl: run|create ; -v=/:* --volume=/:* --mount=*source=/,* --mount=*src=/,*
= it runs a command on many machines of a cluster
ansible-playbook ; ; --check --syntax-check ; unnamed
ansible ; -a --args -m --module-name ; -m=ping -m=setup -m=debug --check
salt salt-ssh ; ; test.ping test.version grains.*
puppet: resource ; ensure=absent ensure=purged ensure=stopped
puppet: apply ; -e --execute

= it removes packages that the system stands on
apt-get apt aptitude yum dnf microdnf zypper apk tdnf snap: _uninstalls ; ; -s --no-act ; essential
apt-get apt aptitude ; --allow-remove-essential --force-yes ; -s --no-act
apt-get apt aptitude: install ; ; -s --no-act ; essential_minus
dpkg ; -r -P --remove --purge & --force-*
dpkg ; -r -P --remove --purge ; ; essential
rpm ; -e --erase & --nodeps --force-*
rpm ; -e --erase ; ; essential
pacman ; -R --remove & -d --nodeps
pacman ; -R --remove ; ; essential
emerge ; -C --unmerge ; ; essential
nix-env ; -e --uninstall ; ; ~.*\*.*
nix-store ; --delete & --ignore-liveness
= it uninstalls packages without naming them
pip pip3 pipx brew conda mamba uv npm snap gem flatpak: ... uninstall|remove|rm ; ; ; ~.*\ufffc.*
nix-collect-garbage ; -d --delete-old
port: uninstall installed|inactive|all
update-alternatives ; --remove-all
conda mamba: remove|uninstall|env ; --all

= it writes to {}
cp install mv ln link scp ; ; ; @targets written
rsync ; ; -n ; last written
patch ; ; ; first written
patch ; ; ; -d,--directory wiped_beyond_here
tar ; -c -r -u -A --create --append ; ; -f,--file written
split uniq ; ; ; second written
tar ; ; ; ?extracts -C,--directory ~/+\.?
unzip ; ; -l -t ; -d ~/+
gawk awk ; -i=inplace ; ; second written
rename prename perl-rename ; ; -n --nono ; second wiped_beyond_here
ed ex red tee truncate sponge fallocate ; ; ; written
vim vi nvim yq ; -c -s -e -E -i --inplace ; ; written
sed perl ruby ; -i --in-place ; ; written
ssh-keygen ; ; -l -y -R -F ; ?answered -f written
wget curl sort ; ; ; -o,-O,--output,--output-document written
find ; ; ; -fprint,-fprint0,-fprintf,-fls written
= it removes or replaces timed jobs, or others that wait
crontab ; ; ; ?replaces_jobs
crontab ; -r
crontab ; /dev/null
atrm
lprm cancel postsuper exim exim4 ; - -a -d -Mrm
= it erases or hides the history of commands
history ; -c -d /dev/null
unset ; HISTFILE
set ; +o & history
= it turns off the firewall, or may cut every connection to the machine
iptables ip6tables ebtables arptables ; -F -X --flush --delete-chain
iptables ip6tables ; -P --policy & DROP REJECT
nft ipset: ... flush|destroy|delete
ufw: ... disable|reset
firewall-cmd ; --panic-on --remove-* --complete-reload
pfctl ; -d -F
ip: ... flush|del|delete
ip: ... set ; down
tc: qdisc|filter add|replace|change|del|delete
resolvectl: dns|domain * *
rfkill: block
route: del|delete default
ifconfig ; down
ifdown
nmcli: ... off|down|disconnect|delete
= it removes the log of the system
journalctl ; --vacuum-*
dmesg ; -c -C --clear --read-clear
= it removes keys or a certificate
gpg ; --delete-secret-keys --delete-secret-and-public-keys --delete-keys
security: delete-*
pass: rm|remove ; -r -rf --recursive
"""

_VALUED = """
git: -C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env -m -o --push-option -b
gh glab: -R --repo -X --method -H -f -F
kubectl oc k3s k helm: -n --namespace --context --cluster --kubeconfig -l --selector -f --filename -k --kustomize
docker podman nerdctl: -H --host --context -c -v --volume --mount -e -w -u -p --name --network --entrypoint --file
aws: --profile --region --output --endpoint-url --query
pv: -o --output
unzip: -d
find: -fprint -fprint0 -fprintf -fls
systemctl: -H -M -t -p
pkill skill: -u -U -g -G -P -s -t --signal --euid --uid --parent --terminal
fuser: -n --namespace
redis-cli valkey-cli keydb-cli: -h -p -a -n -u --user --pass
mv: -t --target-directory -S --suffix
cp install ln link scp: -t -S -m -o -g --target-directory --mode --owner --group
wget: -o -O --output-document --method
curl: -o -O --output -X --request -H --header -d --data
sort: -o --output -k -t -S -T
chown chgrp setfacl: --from -m -x -M -X --modify --remove
crontab: -u
usermod useradd adduser gpasswd: -G --groups -u --uid -g --gid -d --home -s --shell -c --comment -p --password -e
ansible: -i --inventory -m --module-name -a --args -u --user -l --limit -e --extra-vars -f
auditctl: -e
patch: -d --directory -i --input -p --strip
tar: -f --file -C --directory
vim vi nvim gawk awk: -c -S -i -f -v -F
ssh-keygen: -f -t -b -C -N -P
"""

# Operands.


def _moved(command: Command, options: Options, operands: Sequence[Word]) -> Sequence[Word]:
    """Return the sources of `mv`."""
    return operands if options.value("-t", "--target-directory") else operands[:-1]


def _targets(command: Command, options: Options, operands: Sequence[Word]) -> Iterator[Word]:
    """Return the files written by `cp` and the like: the last operand, also as a directory with the sources' names."""
    directory = options.value("-t", "--target-directory")
    target = directory or (operands[-1].text if len(operands) > 1 else "")
    if target:
        yield Word(f"{target}/file" if directory else target)
        sources = operands if directory else operands[:-1]
        yield from (Word(f"{target.rstrip('/')}/{word.text.rpartition('/')[2]}") for word in sources)


def _owned(command: Command, options: Options, operands: Sequence[Word]) -> Sequence[Word]:
    """Return the files of `chown`. The first operand is the owner unless `--reference` names a file."""
    of_all = command.name == "setfacl" or any(name.startswith("ref") for name in options.names)
    return operands if of_all else operands[1:]


_NO_ENTRY = ("-H", "-L", "-P")


def find_roots(command: Command) -> tuple[Word, ...]:
    """Return the start directories of `find`."""
    roots: list[Word] = []
    for word in command.args:
        if word.text.startswith(("-", "(", "!")) and word.text not in _NO_ENTRY:
            break
        if word.text not in _NO_ENTRY:
            roots.append(word)
    return tuple(roots) or (Word("."),)


_NARROWING = word_set(
    """
    -name -iname -path -ipath -wholename -regex -iregex -mtime -mmin -atime -ctime -newer -size -empty -lname
    -inum -samefile -amin -cmin -newermt -perm -user -group -links
    """
)
_ACTIONS = frozenset({"-delete", "-exec", "-execdir", "-print", "-print0"})
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - a path of the target


@lru_cache(maxsize=4)  # asked for each of the roots
def is_narrowed(command: Command) -> bool:
    """Return True if a condition limits the files below the roots on which `find` acts."""
    texts = command.texts
    if any(one in ("-o", "-or", ",") and other in _ACTIONS for one, other in pairwise(texts)):
        return False
    negated = {other for one, other in pairwise(texts) if one in ("!", "-not") and other.endswith(("name", "path"))}
    return not (_NARROWING - negated).isdisjoint(texts)


def _found(word: Word, command: Command) -> str | None:
    lost = wiped(word, command)
    is_common = lost == "the whole working directory" or normalized_path(word, command) in _TEMPORARY
    return None if is_common and is_narrowed(command) else lost


def _unnamed(word: Word, command: Command) -> str | None:
    """Return the text of an operand made from unfiltered output, which may name anything; else None."""
    for fed in producer_chain(word.producers):
        options = {text.partition("=")[0] for text in fed.texts}
        if fed.name in _CHOOSING or not _MAKING.isdisjoint(fed.texts[:1]) or not _FILTERS.isdisjoint(options):
            return None
    return word.text if word.producers or word.text.startswith("/dev/fd/") else None


_FILTERS = frozenset(["-f", "--filter", "-l", "--selector"])
_MAKING = frozenset(["run", "create"])
"""Subcommands that print the name of a new container or image."""
_MODE = re.compile(r"-[rwxXst]+")
_SETS_USER = re.compile(r"0*[4-7][0-7]{3}|(?:[ugoa]*[-+=][rwxXst]*,)*[uoa]*[+=][rwx]*s[rwxst]*(?:,.*)?")
_TO_ALL = re.compile(
    r"0*[0-7]?[0-7]{2}[2367]|(?:[ug]*[ao][ugoa]*)?[+=][rx]*w[rwxst]*|0+|[0-7]?000|(?:a|ugo)?(?:=|-r?w?x?)"
)


def _mode(command: Command) -> tuple[str, tuple[Word, ...]]:
    """Return the mode and the files of `chmod`. A mode such as `-w` looks like an option."""
    secret_files = next((text for text in command.texts if _MODE.fullmatch(text)), "")
    operands = Options.of([word for word in command.args if not _MODE.fullmatch(word.text)]).operands
    if secret_files or any(text.startswith("--ref") for text in command.texts):
        return secret_files, operands
    return (operands[0].text if operands else "", operands[1:])


def _opened(word: Word, command: Command) -> str | None:
    """Return the result of `written`, but None in a home, where permissions of files are set every day."""
    if word.glob and word.text.endswith("*"):
        return wiped_beyond_here(word, command)
    return None if word.text.startswith(("~/", "/home/", "/root/")) else written(word, command)


# Conditions.

_ANY_PROCESS = re.compile(r"[.^$*+?]+|/|\^?(?:init|systemd|sshd?|dockerd?|containerd)\$?")
_CHOOSING = frozenset(["grep", "egrep", "rg", "pgrep", "head", "tail", "lsof"])


def _kills_all(command: Command) -> bool:
    """Return True for `kill -1`, `kill 1`, `kill 0`. The first argument may be a signal."""
    producers = [fed for word in command.args for fed in producer_chain(word.producers)]
    producers += producer_chain(command.producers) if command.is_nested else ()
    feeding = {fed.name for fed in producers}
    chosen = [text for fed in producers if fed.name in ("pgrep", "pidof", "lsof") for text in fed.texts]
    if ("ps" in feeding and feeding.isdisjoint(_CHOOSING)) or any(map(_ANY_PROCESS.fullmatch, chosen)):
        return True
    texts = command.texts
    if not {"-l", "-L", "-0"}.isdisjoint(texts):
        return False
    is_signal = len(texts) > 1 and texts[0].startswith("-") and texts[0] != "--"
    return not {"-1", "0", "1"}.isdisjoint(texts[is_signal:])


def producer_chain(commands: Sequence[Command]) -> Iterator[Command]:
    """Return commands and, for a few steps, the producers of the last command."""
    for _ in range(8):
        yield from commands[-8:]
        commands = commands[-1].producers if commands else ()


def _replaces_jobs(command: Command) -> bool:
    """Return True for `crontab -` and `crontab < file` without `crontab -l` as producer."""
    reads = command.producers or command.stdin_text is not None or command.redirects
    words = [text for text in command.texts if text != "-"]
    return bool(not words and reads and not any(fed.name == "crontab" for fed in command.producers))


_COMMENT_OR_TEXT = re.compile(r"(--[^\n]*|/\*(?:.*?\*/|.*))|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", re.DOTALL)
_DROPS = re.compile(
    r"drop\s+(?:database|schema|table|view|materialized\s+view|index|user|role|tablespace|owned|keyspace|collection"
    r"|function|sequence|extension|publication)\b|alter\s+table\s+\S+\s+drop\b"
)
_CHANGES_ROWS = re.compile(r"(?:with\b.*)?(?:delete\s+from|update\s+\S+\s+set)\b", re.DOTALL)
_NARROWS = re.compile(r"\b(?:where|limit)\b")
_NARROWS_NOTHING = re.compile(r"\bwhere\s+(?:1\s*=\s*1|true|1|0\s*=\s*0)\s*$")
_DOCUMENTS = re.compile(
    r"dropDatabase|\.drop\(|deleteMany\(\s*(?:\{\s*\})?\s*\)|remove\(\s*\{\s*\}\s*\)|dropUser|dropCollection|dropAll"
    r"|objects\.all\(\)\.delete|\b(?:delete|destroy)_all\b"
)
_FLUSHES = re.compile(r"^[ \t]*(?:flush_?all|flushdb|shutdown)", re.IGNORECASE | re.MULTILINE)
CLIENTS = word_set(
    """
    psql mysql mariadb sqlite3 sqlite sqlcmd cqlsh duckdb clickhouse clickhouse-client cockroach bq snowsql
    sqlplus usql pgcli mycli litecli trino presto hive beeline influx spark-sql isql turso
    """
)
"""Programs whose arguments and input may be SQL."""
_WRITES_FILE = re.compile(
    r"(?i:writefile\(|lo_export\([^,]{0,100},|into\s+(?:out|dump)file|copy\b.{0,500}\bto"
    r"|^\s*\.(?:output|once)|^\s*\\[ogw])\s*['\"]?([/~][^'\"\s|]*)"
)
_STATEMENT = frozenset(["-c", "--command", "-e", "--execute", "-q", "--query", "-Q"])


def _sql(text: str) -> str | None:
    """Return the loss by SQL statements; None if harmless."""
    for statement in _COMMENT_OR_TEXT.sub(lambda found: " " if found[1] else " x ", text).lower().split(";"):
        plain = statement.strip()
        if _DROPS.match(plain):
            return "it drops data of a database"
        if plain.startswith("truncate"):
            return "it empties a table"
        if _CHANGES_ROWS.match(plain) and (not _NARROWS.search(plain) or _NARROWS_NOTHING.search(plain)):
            return "it removes or overwrites all rows of a table"
    return None


def _statements(command: Command) -> Iterator[str]:
    """Return the possible SQL texts of a client: each argument, and standard input."""
    for text in command.texts:
        yield re.sub(r"^(?:-[a-zA-Z]|--[a-z-]+=)", "", text) if text.startswith("-") else text
    yield command.stdin_text or ""


def _lost_by_sql(command: Command) -> str | None:
    made = any(
        option.text in _STATEMENT and word.text.startswith(UNKNOWN) and {fed.name for fed in word.producers} != {"cat"}
        for option, word in pairwise(command.args)
    )
    if made or (command.stdin_text or "").lstrip().startswith(UNKNOWN):
        return f"{UNSEEN}: a database is given statements made at run time"
    for path in (found[1] for text in _statements(command) for found in _WRITES_FILE.finditer(text)):
        if lost := written(Word(path), command):
            return f"it writes to {lost}"
    return next((lost for text in _statements(command) if (lost := _sql(text))), None)


_CRITICAL_UNITS = (
    r"(?:sshd?|docker|containerd|kubelet|network(?:ing|-manager)?|NetworkManager|systemd-.*|dbus|firewalld|ufw|nftables"
    r"|iptables|auditd|apparmor|fail2ban|crond?|rsyslog)(?:\.service|\.socket)?"
)
_ESSENTIAL = (
    r"(?:(?:lib(?:c6|c-bin|gcc.*|stdc\+\+.*|ssl.*)|glibc.*|musl|coreutils|bash|dash|sh|util-linux|systemd.*|sudo|apt|dpkg"
    r"|rpm|yum|dnf|pacman|apk-tools|linux-image.*|kernel.*|linux|grub.*|openssh.*|python3?(?:-minimal)?|perl-base|login"
    r"|passwd|base|base-files|core\d*|snapd|filesystem|mount|init|ca-certificates|network-manager|dbus)(?::\w+)?"
    r"|(?:[.*?^$~]|\.\*|\[.*\])+|~i.*|\?installed|.*\ufffc.*)-?"
)
TABLE = Table(
    _RULES,
    _VALUED,
    {
        "wiped": wiped,
        "wiped_beyond_here": wiped_beyond_here,
        "moved_away": moved_away,
        "swept": swept,
        "written": written,
        "overwritten": overwritten,
        "mirrored": mirrored,
        "device": device,
        "found": _found,
        "opened": _opened,
        "unnamed": _unnamed,
        "everything": r"\./?|\./\*|\*|:/?",
        "critical": r"\^?(?:init|systemd|sshd?|(?:ba|z|da)?sh|dockerd?|containerd|dbus-daemon|launchd|kthreadd)\$?",
        "critical_units": _CRITICAL_UNITS,
        "essential": _ESSENTIAL,
        "essential_minus": rf"(?:{_ESSENTIAL})(?<=[^-]-)",
        "kinds": (
            r"(?:[\w.]+,)*(?:ns|namespaces?|pv|pvc|persistentvolume(?:claim)?s?|crds?|customresourcedefinitions?|no|nodes?"
            r"|all|projects?|deploy|deployments?|sts|statefulsets?|ds|daemonsets?|secrets?|clusterrole(?:binding)?s?"
            r"|storageclass(?:es)?|sc|svc|services?|ing|ingress(?:es)?)(?:[./,].*)?"
        ),
        "data_url": (
            r"(?:\w+://)?(?:[^/@]*@)?(?:[^/]+/(?:_all|\*)/?|[^/]*:(?:9200|9201|8500|2379|8200|5984|15672|6333|8983|8086)/.+"
            r"|[^/]*(?:api\.|\.googleapis\.|\.amazonaws\.|management\.azure\.|gitlab)[^/]*/.+|.*/_delete_by_query.*)"
        ),
        "moved": _moved,
        "targets": _targets,
        "owned": _owned,
        "files": lambda command, options, operands: _mode(command)[1],
        "roots": lambda command, options, operands: find_roots(command),
        "answered": lambda command: bool(command.stdin_text or command.producers),
        "sets_user": lambda command: bool(_SETS_USER.fullmatch(_mode(command)[0]) and _mode(command)[1]),
        "opens_to_all": lambda command: bool(_TO_ALL.fullmatch(_mode(command)[0])),
        "kills_all": _kills_all,
        "extracts": lambda command: any(
            re.fullmatch(r"-[a-zA-Z]*x[a-zA-Z]*|--extract|--get", text)
            or (not at and re.fullmatch(r"[a-zA-Z]*x[a-zA-Z]*", text))
            for at, text in enumerate(command.texts)
        ),
        "replaces_jobs": _replaces_jobs,
        "drops_documents": lambda command: any(map(_DOCUMENTS.search, _statements(command))),
        "reads_flush": lambda command: bool(_FLUSHES.search(command.stdin_text or "")),
        "_uninstalls": "remove|rm|purge|autoremove|erase|uninstall|del|delete|autopurge|full-remove",
        "_removes": (
            "delete|delete[-_]*|*-delete|*:delete|*-del|deleteall|del|destroy*|*[-.:]destroy|remove|remove[-_]*|*:remove"
            "|rm|rmr|rmdir|rmpool|purge*|terminate|undefine|nuke|uninstall|forget|prune|recreate|reset|force_reset|pg:reset"
            "|labelclear|wipe_table|lvremove|vgremove|pvremove|lvreduce|revoke|unregistervm|clear"
        ),
        "_drops": (
            "db:drop*|db:reset*|db:purge*|db:truncate_all|db:migrate:reset|db:migrate:undo:all|db:schema:load|db:wipe"
            "|migrate:fresh|migrate:reset|migrate:refresh|ecto.drop|ecto.reset|*:database:drop|*schema:drop"
        ),
    },
)
_HIDES_HISTORY = re.compile(r"HISTFILE=(?:/dev/null)?|HISTSIZE=0|HISTFILESIZE=0|HISTIGNORE=\*?")
_DECLARING = frozenset({"", "export", "declare", "typeset", "readonly", "local"})


def _hides_history(command: Command) -> bool:
    if not command.assignments and command.name not in _DECLARING:
        return False
    assigned = (f"{name}={value.text}" for name, value in command.assignments)
    declared = command.texts if command.name in _DECLARING else ()
    return any(map(_HIDES_HISTORY.fullmatch, (*assigned, *declared)))


def destructive_reason(command: Command) -> str | None:
    """Return the reason why a command is destructive, apart from its nested commands; None if harmless."""
    for redirect in command.redirects:
        if redirect.is_output and (lost := written(redirect.target, command)):
            return f"it writes to {lost}"
    if _hides_history(command):
        return "it erases or hides the history of commands"
    if (command.name in CLIENTS or "dbshell" in command.texts) and (lost := _lost_by_sql(command)):
        return lost
    return TABLE.reason(command) if command.name else None
