export { priced } from './priced.js';
export type { ModelPrice, ModelPrices } from './model-prices.js';
export { rateLimited } from './rate-limited.js';
export type { RateLimits } from './rate-limiter.js';
export { fallback } from './fallback.js';
export { retried } from './retried.js';
export type { FallbackOptions } from './fallback.js';
export type { RetryOptions } from './retried.js';
