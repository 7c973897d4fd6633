export { blockRealModels, CassetteModel } from './cassette-model.js';
export type { CassetteOptions, CassetteRecording } from './cassette-model.js';
export { auditOf, expectAudit } from './audit-expectation.js';
export { collect, eventsOf, expectDenied, expectRunEndsOnce } from './expectations.js';
export { expectInjected } from './injection-expectation.js';
export { expectTranscriptValid } from './transcript-expectation.js';
export type { ExpectedAudit } from './audit-expectation.js';
export type { ExpectedInjection } from './injection-expectation.js';
export type { RunEvidence } from './expectations.js';
export { FaultyModel } from './faulty-model.js';
export { killedProcess } from './killed-process.js';
export { troubled } from './store-trouble.js';
export type { DoomedProcess } from './killed-process.js';
export type { ModelFault } from './faulty-model.js';
export type { StoreTrouble } from './store-trouble.js';
export { FlowReplay, recordedResult, replayFlow } from './flow-replay.js';
export type { FlowOutcome, FlowReplayOptions, MadeCall } from './flow-replay.js';
export { hostileReader, trueReader } from './recorded-flow.js';
export type {
  AttackingCall,
  FlowReader,
  ReaderQuestion,
  ReplayedAttack,
  ReplayedCall,
} from './recorded-flow.js';
export {
  call,
  calls,
  cut,
  events,
  fails,
  hangs,
  SCRIPTED_USAGE,
  ScriptedModel,
  text,
  textAndCalls,
} from './scripted-model.js';
export type {
  RecordedRequest,
  ScriptedAnswer,
  ScriptedAnswerOptions,
  ScriptedCall,
  ScriptedEnding,
  ScriptedModelOptions,
  ScriptedTurn,
} from './scripted-model.js';
export { toolLoopMatchers } from './matchers.js';
export type { ToolLoopMatchers } from './matchers.js';
export { expectSameRun, readRecordedRun, recordRun, scriptOf } from './recorded-run.js';
export type {
  RecordedCall,
  RecordedRun,
  RecordedStep,
  RecordRunOptions,
  RunReaderIdentity,
} from './recorded-run.js';
export { redactPersonal, redactSecrets } from './redaction.js';
export type { Redact } from './redaction.js';
export { ExpectationError } from './testing.error.js';
export { ScriptedTool, ToolLoopTestingModule } from './tool-loop-testing.module.js';
export type { ScriptedToolCall, ToolFake } from './tool-loop-testing.module.js';
export { runTwoTenants } from './two-tenants.js';
export type { TenantCase, TenantRun } from './two-tenants.js';
export { languageModelContract } from './contracts/language-model-contract.js';
export type { ModelSituation, ModelUnderTest } from './contracts/language-model-contract.js';
export { toolSourceContract } from './contracts/tool-source-contract.js';
export type { ToolSourceUnderTest } from './contracts/tool-source-contract.js';
export { accountStoreContract } from './contracts/account-store-contract.js';
export { pendingStoreContract } from './contracts/pending-store-contract.js';
export { auditStoreContract } from './contracts/audit-store-contract.js';
export { callJournalContract } from './contracts/call-journal-contract.js';
export { atOnce, AWKWARD_TEXTS, runContract } from './contracts/contract.js';
export type {
  Contract,
  ContractCase,
  ContractRunner,
  RestartCase,
  StoreUnderTest,
  Trial,
} from './contracts/contract.js';
export { conversationStoreContract } from './contracts/conversation-store-contract.js';
export { directiveStoreContract } from './contracts/directive-store-contract.js';
export { policyStoreContract } from './contracts/policy-store-contract.js';
export { usageStoreContract } from './contracts/usage-store-contract.js';
export { runLogContract } from './contracts/run-log-contract.js';
