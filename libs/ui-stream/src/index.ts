export { agUiEncoder, readAgUiRequest } from './ag-ui.js';
export type { AgUiOptions, AgUiRequest } from './ag-ui.js';
export {
  assistantTransportEncoder,
  dataStreamEncoder,
  readAssistantRequest,
  readDataStreamRequest,
} from './assistant-stream.js';
export type { AssistantRequest, AssistantTransportOptions } from './assistant-stream.js';
export {
  chatCompletionsEncoder,
  readChatCompletionsRequest,
  toChatCompletion,
} from './chat-completions.js';
export type { ChatCompletionsOptions, ChatCompletionsRequest } from './chat-completions.js';
export { contentText, namedCall, readEventId, sseEncoder } from './encoder.js';
export type {
  DeclaredClientTool,
  EventEncoder,
  MessageCut,
  NamedAnswer,
  SeenEvent,
  ShownResults,
  SseEncoderOptions,
} from './encoder.js';
export { toSse } from './to-sse.js';
export type { SseOptions } from './to-sse.js';
export {
  readUiMessageRequest,
  toUiMessageStream,
  UI_MESSAGE_STREAM_HEADERS,
  uiMessageEncoder,
} from './ui-message-stream.js';
export type { UiMessageRequest, UiMessageStreamOptions } from './ui-message-stream.js';
