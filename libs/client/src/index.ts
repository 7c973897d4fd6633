export { ToolLoopClient } from './client.js';
export type { AskOptions, ClientOptions, ReadOptions } from './client.js';
export { ConnectionLostError, ToolLoopHttpError } from './client.error.js';
export type { ReconnectOptions } from './event-stream.js';
export type {
  AnsweredRequest,
  Approval,
  Ask,
  ConversationEntry,
  ConversationPage,
  ConversationSummary,
  ExplainedCall,
  ExplainedTool,
  ExplanationSubject,
  GivenAnswer,
  ListedTool,
  MadeCall,
  Run,
  RunSelection,
  Undoing,
  WaitingRequest,
} from '@toolloop/protocol';
