"""Function calling by a model: schemas of the tools, and answers to the calls.

schemas = tool_schemas("openai")
...                                                     # the model's answer holds a call
text = handle_function_call(call.name, call.arguments, task_id="task 17")
"""

from hermes_env.schemas.calls import handle_function_call
from hermes_env.schemas.toolset import tool_schemas

__all__ = ["handle_function_call", "tool_schemas"]
