export { readEventId, sseEncoder } from './encoder.js';
export type { EventEncoder, SeenEvent, SseEncoderOptions } from './encoder.js';
export { toSse } from './to-sse.js';
export type { SseOptions } from './to-sse.js';
export { readUiMessageRequest, toUiMessageStream, UI_MESSAGE_STREAM_HEADERS, uiMessageEncoder } from './ui-message-stream.js';
export type { UiMessageRequest, UiMessageStreamOptions } from './ui-message-stream.js';
