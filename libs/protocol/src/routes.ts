import type {
  ApprovalRequest,
  ClientCallRequest,
  Decision,
  Endorsable,
  PendingDecision,
  QuestionRequest,
  RehearsalRequest,
} from './decision.js';
import type { JsonValue } from './json.js';
import type { FinishReason, ToolInvocationRecord, WaitingFor } from './loop-result.js';
import type { ToolPresentation, ToolSpec } from './tool-definition.js';

/** A question to the application's loop. */
export interface Ask {
  readonly message: string;
  /** Continues a conversation of the same actor, or begins one: 1 to 64 letters, digits, `-` or `_`. */
  readonly conversationId?: string;
  /** The run changes nothing: it ends with the list of what it would change, which is performed once people have approved it. @default false */
  readonly rehearse?: boolean;
  /** While another run of the conversation is under way: `queue` for its own run behind that one, `addInput` to say it to that one. @default 'queue' */
  readonly whenBusy?: 'queue' | 'addInput';
}

/** A run as the routes show it. */
export interface Run {
  readonly runId: string;
  readonly status: 'queued' | 'running' | 'waiting' | 'ended';
  /** Set where any process continues it, and its events are kept. */
  readonly durable: boolean;
  /** Absent for a run that has not ended and does not wait. */
  readonly finishReason?: FinishReason;
  readonly waitingFor?: WaitingFor;
  /** The sequence of its last event that was kept; 0 for none. */
  readonly lastSequence: number;
  /** The run from which it was forked, and the last step that both share. */
  readonly forkOf?: { readonly runId: string; readonly step: number };
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A selection of runs. */
export interface RunSelection {
  readonly status?: Run['status'];
  /** The id of the last run of the previous page. */
  readonly after?: string;
}

/** The answer to something that a run had asked. */
export interface GivenAnswer {
  readonly decision: PendingDecision;
  readonly reason?: string;
  /** The id of the person who answered. */
  readonly decidedBy: string;
  /** ISO 8601, UTC. */
  readonly decidedAt: string;
  /** The things that the person trusts for the rest of the run. */
  readonly endorse?: Pick<Endorsable, 'arguments' | 'sources'>;
}

/** A call that waits for a yes or no, with the answer once there is one. */
export interface Approval extends ApprovalRequest {
  readonly answer?: GivenAnswer;
}

/** Something that was answered, with the answer. */
export interface AnsweredRequest {
  readonly id: string;
  readonly kind: WaitingFor;
  readonly answer?: GivenAnswer;
}

/** A tool that the actor's model may call from the first step. */
export interface ListedTool extends Pick<ToolSpec, 'id' | 'description' | 'effect' | 'inputSchema'> {
  readonly presentation?: ToolPresentation;
}

/** A call that was made by hand. */
export interface MadeCall {
  readonly runId: string;
  readonly record: ToolInvocationRecord;
  /** The result as people may see it. Absent for a call that did not succeed. */
  readonly ui?: JsonValue;
  /** The ids of the tools that the result brought. */
  readonly injectedTools: readonly string[];
  /** Set where the call waits for a person: its run is resumed once that is answered. */
  readonly waiting?: { readonly runId: string; readonly for: WaitingFor };
}

/** The undoing of a run, as far as it came: the calls that changed something, the latest first. */
export interface Undoing {
  readonly runId: string;
  readonly calls: readonly {
    readonly toolCallId: string;
    readonly declaredId: string;
    readonly directiveId?: string;
    readonly status: 'undone' | 'no_effect' | 'under_way' | 'failed' | 'not_possible' | 'not_reached';
    readonly reason?: string;
  }[];
}

/** A conversation in a list. */
export interface ConversationSummary {
  readonly conversationId: string;
  readonly messages: number;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A message of a conversation. */
export interface ConversationEntry {
  /** The position among the stored messages, from 0. */
  readonly position: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** A page of a conversation, as people may see it. */
export interface ConversationPage {
  readonly conversationId: string;
  readonly entries: readonly ConversationEntry[];
  /** The number of the first message of the next page. Absent on the last one. */
  readonly next?: number;
}

/** The answer of a process that lives. */
export interface Health {
  readonly status: 'ok';
}

/** The answer of a process that a load balancer asks whether to send it requests, with its parts by name and state. */
export interface ReadyAnswer {
  readonly status: 'ready' | 'leaving' | 'unavailable';
  readonly [check: string]: string;
}

/** Something that waits for people or for a client, as those who may see it are shown it. */
export type WaitingRequest = {
  readonly id: string;
  /** ISO 8601, UTC. */
  readonly createdAt?: string;
} & (
  | { readonly kind: 'approval'; readonly request: ApprovalRequest }
  | { readonly kind: 'question'; readonly request: QuestionRequest }
  | { readonly kind: 'client'; readonly request: ClientCallRequest }
  | { readonly kind: 'rehearsal'; readonly request: RehearsalRequest }
);

/** The reasons why a run of an actor is offered a tool, or is not. */
export interface ExplainedTool {
  readonly declaredId: string;
  readonly isListed: boolean;
  /** `asks` if a call waits for a person's approval. */
  readonly isCallable: boolean | 'asks';
  /** In the order in which they are asked. */
  readonly reasons: readonly { readonly by: string; readonly holds: boolean; readonly reason: string; readonly decision?: Decision }[];
}

/** What the audit has about one call. */
export interface ExplainedCall {
  readonly runId: string;
  readonly toolCallId: string;
  readonly declaredId?: string;
  readonly events: readonly {
    /** ISO 8601, UTC. */
    readonly at: string;
    readonly kind: string;
    readonly decision?: Decision;
    readonly reason?: string;
    readonly decidedBy?: string;
    readonly status?: string;
    readonly code?: string;
  }[];
}

/** The subject of an explanation: a tool for an actor, or one call. */
export interface ExplanationSubject {
  /** An actor of the operator's own tenant. @default the operator */
  readonly actorId?: string;
  readonly runId?: string;
  readonly toolCallId?: string;
}
