/**
 * @internal What the libraries of Toolloop need of each other. Outside semver: applications keep
 *   off it. @packageDocumentation
 */
export { Operators } from '../plugins/operators/operators.js';
export { toDirectiveEvent } from '../contracts/directive.js';
export { SAID_BY_THE_RUN } from '../contracts/loop-request.js';
export { guardedAs } from '../tools/decorators/raw-tool.js';
export { providerOptionsOf, toolMethodsOf } from '../tools/decorators/tool-metadata.js';
export { hasEnhancers } from '../tools/nest/enhancers.js';
export { describeFields } from '../tools/decorators/tool-field.decorator.js';
export type { KnownField } from '../tools/decorators/tool-parameters.decorator.js';
export { isNotOmitted, namespaceIn } from '../tools/discovery/words-of-modules.js';
export { DurableRuns } from '../contracts/durable-runs.js';
export type { NamedProfile } from '../contracts/durable-runs.js';
export type { RunEntry, RunJournal, RunStateEntry } from '../contracts/run-log.js';
export { BoundedStores } from '../call/bounded-stores.js';
export { untilAborted } from '../contracts/interruption.js';
export { askStore, asStoreAttempt, isStoreAttempt, longerThanStores } from '../call/store-calls.js';
export { ToolRunner } from '../call/tool-runner.js';
export { Plugins } from '../plugin/plugins.js';
export { endingWith } from '../run/run-entries.js';
export { standingRecords } from '../run/unavailable-end.js';
export { RunOpener } from '../run/run-opener.js';
export type { DurableRun } from '../run/run-opener.js';
export { renewContinued } from '../run/continued-run.js';
export type { ContinuedRun } from '../run/continued-run.js';
export { withDates } from '../memory/json-copies.js';
export { groupsOf } from '../plugins/inbox/pending-groups.js';
export { withdrawal } from '../plugins/inbox/withdrawal.js';
export { ActorIdentity } from '../policy/actor-identity.js';
export {
  BOOLEAN,
  CLASS,
  FUNCTION,
  listOf,
  needed,
  OBJECT,
  oneOf,
  optionsOf,
  TEXT,
  whatCan,
  WHOLE_ABOVE_ZERO,
  wholeFrom,
} from '../findings/option-rules.js';
export { CHECKED_BY_USE, defineOptions } from '../findings/options.js';
export { nearestName } from '../findings/nearest-name.js';
export type { OptionRule, OptionTable } from '../findings/options.js';
export { Logger } from '../findings/logger.js';
export { isGiven } from '../schema/input-properties.js';
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
export { findUnready } from '../schema/json-copy.js';
export { toResultJson } from '../schema/reveal.js';
