export type { PendingFilter, Respondent } from '../pending/pending.service.js';
export { flushBeforeClose } from './run-opener.js';
export type { ListingRequest } from './run-preparation.js';
