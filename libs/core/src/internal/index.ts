/** @internal What the libraries of Toolloop need of each other. Outside semver: applications keep off it. @packageDocumentation */
export { ApprovalWitness } from '../contracts/approval.js';
export type { RefusedDecision } from '../contracts/approval.js';
export { toDirectiveEvent } from '../contracts/directive.js';
export { SAID_BY_THE_RUN } from '../contracts/loop-request.js';
export { DurableRuns } from '../contracts/stores.js';
export type { NamedProfile, RunEntry, RunJournal } from '../contracts/stores.js';
export type { ProjectionObserver } from '../contracts/tool.js';
export { ToolCallStorage } from '../execution/call-context.js';
export { askStore, outsideOfRuns } from '../execution/store-calls.js';
export { ToolRunner } from '../execution/tool-runner.js';
export { RunOpener } from '../loop/run-opener.js';
export type { KeptRun } from '../loop/run-opener.js';
export { withdrawal } from '../pending/approval.service.js';
export { ActorIdentity } from '../policy/actor-identity.js';
export { toResultJson } from '../schema/reveal.js';
