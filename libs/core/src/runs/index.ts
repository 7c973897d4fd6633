export type { RunStatus } from '../contracts/stores.js';
export { PolicyError, PolicyService } from './policy.service.js';
export type { PolicyDifference, PolicyListing, PolicyPut, PolicyReach, PolicyReason, StopTarget } from './policy.service.js';
export { RunService } from './run.service.js';
export type { RunFilter, RunReader, RunView } from './run.service.js';
