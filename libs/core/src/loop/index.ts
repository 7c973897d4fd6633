export type { ApprovalFilter, Approver } from '../pending/approval.service.js';
export type { ConversationEntry, ConversationPart, ConversationReader } from './conversation.service.js';
export { farewell } from './run-opener.js';
export type { ListingRequest } from './run-preparation.js';
