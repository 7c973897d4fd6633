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
  GivenAnswer,
  ListedTool,
  MadeCall,
  Run,
  RunSelection,
  Undoing,
} from '@toolloop/protocol';
