export type { InboxEntry, PendingView, PendingViewOf } from '../contracts/pending.js';
export type { ToolFeatureOptions } from '../tools/discovery/tool-feature.js';
export type { PendingFilter, Respondent } from '../plugins/inbox/pending.service.js';
export { flushBeforeClose } from '../run/flush-before-close.js';
export type { ListingRequest, ToolExplanation } from '../run/run-preparation.js';
