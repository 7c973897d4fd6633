/**
 * @internal What the libraries of Toolloop need of each other. Outside semver: applications keep
 *   off it. @packageDocumentation
 */
export { Operators } from '../audit/operators.js';
export type { OperatorUse } from '../audit/operators.js';
export { PendingWitness } from '../contracts/pending.js';
export type { RefusedAnswer } from '../contracts/pending.js';
export { toDirectiveEvent } from '../contracts/directive.js';
export { SAID_BY_THE_RUN } from '../contracts/loop-request.js';
export { providerOptionsOf, toolMethodsOf } from '../decorators/tool-metadata.js';
export { describeFields } from '../decorators/tool-parameters.decorator.js';
export type { KnownField } from '../decorators/tool-parameters.decorator.js';
export { isNotOmitted, namespaceIn } from '../discovery/repeated-providers.js';
export { DurableRuns } from '../contracts/stores.js';
export type { NamedProfile, RunEntry, RunJournal, RunStateEntry } from '../contracts/stores.js';
export type { ProjectionObserver } from '../contracts/tool.js';
export { BoundedStores } from '../execution/bounded-stores.js';
export { untilAborted } from '../execution/call-failure.js';
export { ToolCallStorage } from '../execution/call-context.js';
export {
  askStore,
  asStoreAttempt,
  isStoreAttempt,
  longerThanStores,
} from '../execution/store-calls.js';
export { ToolRunner } from '../execution/tool-runner.js';
export { endingWith } from '../loop/run-log.js';
export { RunOpener } from '../loop/run-opener.js';
export type { DurableRun } from '../loop/run-opener.js';
export { renewContinued } from '../loop/suspended-runs.js';
export type { ContinuedRun } from '../loop/suspended-runs.js';
export { withDates } from '../memory/memory-run-log.js';
export { UsageLedger } from '../usage/usage-ledger.js';
export { groupsOf } from '../pending/pending-reply.js';
export { withdrawal } from '../pending/pending.service.js';
export { ActorIdentity } from '../policy/actor-identity.js';
export {
  BOOLEAN,
  CHECKED_BY_USE,
  CLASS,
  defineOptions,
  FUNCTION,
  isWhole,
  listOf,
  nearestName,
  needed,
  OBJECT,
  oneOf,
  optionsOf,
  TEXT,
  whatCan,
  WHOLE_ABOVE_ZERO,
  wholeFrom,
} from '../findings/options.js';
export type { OptionRule, OptionTable } from '../findings/options.js';
export { Logger } from '../findings/logger.js';
export { isGiven } from '../schema/property-metadata.js';
export { dtoSchema } from '../schema/dto-schema.js';
export { classOf, exposedPropertiesOf, hiddenPropertiesOf } from '../schema/exposed-properties.js';
export type { ExposedProperty } from '../schema/exposed-properties.js';
export {
  canonicalDeclaration,
  canonicalJson,
  parseJson,
  sha256,
  toJsonObject,
} from '../schema/canonical-json.js';
export { findUnready, toResultJson } from '../schema/reveal.js';
