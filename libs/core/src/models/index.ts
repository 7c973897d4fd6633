export { priced } from './priced.js';
export type { ModelPrice, ModelPrices } from './priced.js';
export { rateLimited } from './rate-limited.js';
export type { RateLimits } from './rate-limited.js';
export { fallback, retried } from './wrappers.js';
export type { FallbackOptions, RetryOptions } from './wrappers.js';
