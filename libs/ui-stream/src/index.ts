export { agUiEncoder } from './ag-ui-encoder.js';
export { readAgUiRequest } from './ag-ui-request.js';
export type { AgUiOptions } from './ag-ui-encoder.js';
export type { AgUiRequest } from './ag-ui-request.js';
export { assistantTransportEncoder } from './assistant-transport-encoder.js';
export { dataStreamEncoder } from './data-stream-encoder.js';
export { readAssistantRequest } from './assistant-request.js';
export { readDataStreamRequest } from './data-stream-request.js';
export type { AssistantRequest } from './assistant-request.js';
export type { AssistantTransportOptions } from './assistant-transport-encoder.js';
export { chatCompletionsEncoder } from './chat-completions-encoder.js';
export { readChatCompletionsRequest } from './chat-completions-request.js';
export { toChatCompletion } from './chat-completion.js';
export type { ChatCompletionsOptions } from './chat-completions-encoder.js';
export type { ChatCompletionsRequest } from './chat-completions-request.js';
export { contentText, namedCall } from './named-answer.js';
export { readEventId, sseEncoder } from './encoder.js';
export type { DeclaredClientTool } from './declared-client-tool.js';
export type { EventEncoder, SeenEvent, SseEncoderOptions } from './encoder.js';
export type { MessageCut } from './message-cut.js';
export type { NamedAnswer, ShownResults } from './named-answer.js';
export { toSse } from './to-sse.js';
export type { SseOptions } from './to-sse.js';
export { readUiMessageRequest } from './ui-message-request.js';
export {
  toUiMessageStream,
  UI_MESSAGE_STREAM_HEADERS,
  uiMessageEncoder,
} from './ui-message-encoder.js';
export type { UiMessageRequest } from './ui-message-request.js';
export type { UiMessageStreamOptions } from './ui-message-encoder.js';
