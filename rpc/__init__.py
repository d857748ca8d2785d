"""How a script calls back: messages, the dispatcher that answers them, the stub, and the transports.

dispatcher = Dispatcher({"add": add}, token=token)
transport = UnixSocketTransport(dispatcher)
transport.start()
source = generate_stub({"add": add}, transport.client_source, token)    # of hermes_tools.py
...                                                                      # run a script that imports it
dispatcher.close()
transport.close()
dispatcher.join()
"""

from rpc.dispatcher import BeforeCall, Dispatcher
from rpc.file_queue import FileQueueTransport
from rpc.messages import MAX_MESSAGE_BYTES, JsonValue, MessageError, Request, Response
from rpc.relay import RelayTransport
from rpc.schema_tools import tools_from_schemas
from rpc.stub import ToolErrors, generate_stub
from rpc.tool_calls import ToolCall, ToolCallCallback, ToolCallLog
from rpc.transport import Transport
from rpc.unix_socket import UnixSocketTransport

__all__ = [
    "MAX_MESSAGE_BYTES",
    "BeforeCall",
    "Dispatcher",
    "FileQueueTransport",
    "JsonValue",
    "MessageError",
    "RelayTransport",
    "Request",
    "Response",
    "ToolCall",
    "ToolCallCallback",
    "ToolCallLog",
    "ToolErrors",
    "Transport",
    "UnixSocketTransport",
    "generate_stub",
    "tools_from_schemas",
]
