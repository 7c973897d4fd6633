export type {
  ConversationEntry,
  ConversationPart,
  ConversationReader,
} from '../plugins/conversations/conversation.service.js';
export type { RunStatus } from '../contracts/run-log.js';
export { EndorsementService } from '../plugins/flow/endorsement.service.js';
export type { Endorsement } from '../plugins/flow/endorsement.service.js';
export { PolicyError, PolicyService } from '../plugins/operators/policy.service.js';
export type {
  PolicyDifference,
  PolicyReplay,
  ReplayedDecision,
  ReplayedRun,
  UnreplayedCall,
} from '../plugins/operators/policy-replay.js';
export type {
  PolicyListing,
  PolicyPut,
  PolicyReach,
  PolicyReason,
  StopTarget,
} from '../plugins/operators/policy.service.js';
export { RehearsalService } from '../plugins/rehearsals/rehearsal.service.js';
export type { RehearsalTerms } from '../plugins/rehearsals/rehearsal.service.js';
export { RunService } from './run.service.js';
export type { RunFilter, RunReader, RunUndoing, RunView, UndoneCall } from './run.service.js';
export type { RunReading } from './watched-run.js';
