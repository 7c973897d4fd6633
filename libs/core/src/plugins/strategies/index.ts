export { ToolInjectionStrategy } from '../../contracts/injection.js';
export type {
  EntityHandles,
  EntityKey,
  EntitySurface,
  InjectionResult,
  RemovalCause,
  RunBeginning,
  ToolInjection,
  ToolInjectionContext,
  WithheldTools,
} from '../../contracts/injection.js';
export { assumeRoles } from './assumed-roles.js';
export type { AssumedRolesOptions, RoleChange } from './assumed-roles.js';
export { phases } from './phases.js';
export type { PhaseChange, PhaseState, PhasesOptions } from './phases.js';
export { planning } from './planning.js';
export { toolSearch } from './tool-search.js';
export type { ToolSearchOptions } from './tool-search.js';
export type { ResultTrigger } from './triggers.js';
export { unlock } from './unlock.js';
export type { UnlockOptions } from './unlock.js';
