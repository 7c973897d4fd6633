export { HistoryPolicy } from '../../contracts/history.js';
export type { HistoryContext, HistoryCut } from '../../contracts/history.js';
export { slidingWindow, tokenBudget } from './bounded.js';
export type { MessageExtent, TokenExtent } from './bounded.js';
export { summarised } from './summarised.js';
export type { SummaryOptions } from './summarised.js';
export { TokenCounter } from '@toolloop/protocol';
