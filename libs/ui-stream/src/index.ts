export { toSse } from './to-sse.js';
export type { SseOptions } from './to-sse.js';
