export { toSse } from './to-sse.js';
export type { SseOptions } from './to-sse.js';
export { readUiMessageRequest, toUiMessageStream, UI_MESSAGE_STREAM_HEADERS } from './ui-message-stream.js';
export type { UiMessageRequest, UiMessageStreamOptions } from './ui-message-stream.js';
