export { collect, eventsOf, expectDenied, expectInjected, expectRunEndsOnce, expectTranscriptValid } from './expectations.js';
export type { ExpectedInjection, RunEvidence } from './expectations.js';
export { FlowReplay, recordedResult, replayFlow } from './flow-replay.js';
export type { FlowOutcome, FlowReplayOptions, MadeCall } from './flow-replay.js';
export { hostileReader, trueReader } from './recorded-flow.js';
export type { AttackingCall, FlowReader, ReaderQuestion, ReplayedAttack, ReplayedCall } from './recorded-flow.js';
export { call, calls, cut, events, fails, hangs, SCRIPTED_USAGE, ScriptedModel, text, textAndCalls } from './scripted-model.js';
export type {
  RecordedRequest,
  ScriptedAnswer,
  ScriptedAnswerOptions,
  ScriptedCall,
  ScriptedEnding,
  ScriptedTurn,
} from './scripted-model.js';
export { ExpectationError, UnexpectedModelCallError } from './testing.error.js';
export { ToolLoopTestingModule } from './tool-loop-testing.module.js';
export type { ToolFake } from './tool-loop-testing.module.js';
export { accountStoreContract } from './contracts/account-store-contract.js';
export { pendingStoreContract } from './contracts/pending-store-contract.js';
export { auditStoreContract } from './contracts/audit-store-contract.js';
export { callJournalContract } from './contracts/call-journal-contract.js';
export { atOnce, AWKWARD_TEXTS, runContract } from './contracts/contract.js';
export type { Contract, ContractCase, ContractRunner, RestartCase, StoreUnderTest, Trial } from './contracts/contract.js';
export { conversationStoreContract } from './contracts/conversation-store-contract.js';
export { directiveStoreContract } from './contracts/directive-store-contract.js';
export { policyStoreContract } from './contracts/policy-store-contract.js';
export { usageStoreContract } from './contracts/usage-store-contract.js';
export { runLogContract } from './contracts/run-log-contract.js';
