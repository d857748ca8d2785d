"""Callbacks of a script: messages, the dispatcher, the stub, and the transports.

dispatcher = Dispatcher({"add": add}, token=token)
transport = UnixSocketTransport(dispatcher)
place = transport.start()
source = generate_stub({"add": add}, SOCKET)    # the text of hermes_tools.py
own = own_file(token, place)                    # the text of the file `own` beside hermes_tools.py
...                                             # run a script that imports hermes_tools
dispatcher.close()
transport.close()
dispatcher.join()
"""

from rpc.dispatcher import BeforeCall, Dispatcher
from rpc.file_queue import FileQueueTransport
from rpc.messages import MAX_MESSAGE_BYTES, JsonValue, MessageError, Request, Response
from rpc.relay import Relay
from rpc.schema_tools import tools_from_schemas
from rpc.stub import FILE_QUEUE, SOCKET, ToolErrors, generate_stub, own_file
from rpc.tool_calls import ToolCall, ToolCallCallback, ToolCallLog
from rpc.unix_socket import UnixSocketTransport

__all__ = [
    "FILE_QUEUE",
    "MAX_MESSAGE_BYTES",
    "SOCKET",
    "BeforeCall",
    "Dispatcher",
    "FileQueueTransport",
    "JsonValue",
    "MessageError",
    "Relay",
    "Request",
    "Response",
    "ToolCall",
    "ToolCallCallback",
    "ToolCallLog",
    "ToolErrors",
    "UnixSocketTransport",
    "generate_stub",
    "own_file",
    "tools_from_schemas",
]
