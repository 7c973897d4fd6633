export type {
  ConversationEntry,
  ConversationPart,
  ConversationReader,
} from './conversation.service.js';
export type { RunStatus } from '../contracts/stores.js';
export { EndorsementService } from './endorsement.service.js';
export type { Endorsement } from './endorsement.service.js';
export { PolicyError, PolicyService } from './policy.service.js';
export type {
  PolicyDifference,
  PolicyReplay,
  ReplayedDecision,
  ReplayedRun,
  UnreplayedCall,
} from './policy-replay.js';
export type {
  PolicyListing,
  PolicyPut,
  PolicyReach,
  PolicyReason,
  StopTarget,
} from './policy.service.js';
export { RehearsalService } from './rehearsal.service.js';
export type { RehearsalTerms } from './rehearsal.service.js';
export { RunService } from './run.service.js';
export type { RunFilter, RunReader, RunUndoing, RunView, UndoneCall } from './run.service.js';
export type { RunReading } from './watched-run.js';
