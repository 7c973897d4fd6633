export { HistoryPolicy } from '../contracts/loop-request.js';
export type { HistoryContext, HistoryCut } from '../contracts/loop-request.js';
export { keepEverything, slidingWindow, tokenBudget } from './bounded.js';
export type { MessageExtent, TokenExtent } from './bounded.js';
export { summarised } from './summarised.js';
export type { SummaryOptions } from './summarised.js';
export { TokenCounter } from '@toolloop/protocol';
