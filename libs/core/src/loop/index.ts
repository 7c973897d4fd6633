export type { InboxEntry, PendingView, PendingViewOf } from '../contracts/pending.js';
export type { ToolFeatureOptions } from '../discovery/tool-feature.js';
export type { PendingFilter, Respondent } from '../pending/pending.service.js';
export { flushBeforeClose } from './run-opener.js';
export type { ListingRequest, ToolExplanation } from './run-preparation.js';
