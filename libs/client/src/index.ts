export { ToolLoopClient } from './client.js';
export type { AskOptions, ClientOptions, ReadOptions } from './client.js';
export { ConnectionLostError, ToolLoopHttpError } from './client.error.js';
export type { ReconnectOptions } from './event-stream.js';
export type {
  Amendment,
  AnsweredRequest,
  Approval,
  ApprovalGroup,
  Ask,
  ConversationEntry,
  ConversationPage,
  ConversationSummary,
  DecisionReach,
  ExplainedCall,
  ExplainedTool,
  ExplanationSubject,
  GivenAnswer,
  ListedTool,
  MadeCall,
  PutPolicies,
  Run,
  RunSelection,
  Stop,
  StopOrder,
  Undoing,
  UsageGroup,
  UsageSelection,
  UsageSums,
  WaitingRequest,
} from '@toolloop/protocol';
