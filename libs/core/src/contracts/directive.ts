import type {
  ApprovalTerms,
  DirectiveEventType,
  DirectiveStatus,
  JsonObject,
  JsonValue,
  ToolFailure,
  ToolPreview,
} from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import type { Policy } from './policy.js';

/** What is being done with a directive: its effect, or the undoing of it. */
export type DirectiveTask = 'perform' | 'compensate';

/** Names a directive. An id alone opens nothing: the tenant is part of the key. */
export interface DirectiveReference {
  readonly tenant: string;
  readonly directiveId: string;
}

/** The call that is performed; the same as was let in, checked and approved. */
export interface DirectiveCall {
  readonly declaredId: string;
  /** The real id of an entity, never a handle. */
  readonly instanceId?: string;
  /** Canonical JSON, hidden arguments included. */
  readonly args: string;
  /** Of the run that asked. */
  readonly runId: string;
  readonly toolCallId: string;
  /** From 1. */
  readonly step: number;
  /** Position among the calls of its step, from 0. */
  readonly index: number;
}

/** Under whose name and which rules a directive is performed. All of it is asked again when it is. */
export interface DirectiveAuthority {
  readonly actorId: string;
  /** Of the run and its loop, beside the application's own. */
  readonly policies: readonly Policy[];
  /** What the model had read when it asked, and which values of the call stem from the user's words or from trusted results. */
  readonly flow: {
    readonly integrity: 'trusted' | 'untrusted';
    readonly confidentiality: 'public' | 'private';
    readonly traced: readonly (string | number)[];
  };
  /** Set where a person said yes: to which rule of which policy, and under which terms. It is good for this directive and nothing else. */
  readonly approved?: DirectiveApproval;
}

/** The yes that a directive was given. */
export interface DirectiveApproval {
  readonly approvalId: string;
  readonly rule: string;
  readonly policyVersion: string;
  readonly terms: readonly ApprovalTerms[];
}

/** What was asked for. It never changes; all of it is JSON. */
export interface DirectiveIntent extends DirectiveReference {
  /** `{type}:{tenant}:{subject}:{request_id}`, each part URI-encoded. Unique per tenant; the key of the effect, too. */
  readonly key: string;
  readonly type: string;
  readonly subject: string;
  readonly call: DirectiveCall;
  readonly authority: DirectiveAuthority;
  /** The arguments in the ui projection. */
  readonly shownArgs: JsonObject;
  readonly preview?: ToolPreview;
  /** The id of the request that the run answered. */
  readonly correlationId: string;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
}

/** Where a directive stands. */
export interface DirectiveState {
  readonly task: DirectiveTask;
  readonly status: DirectiveStatus;
  /** Counts the claims. Whoever claimed an earlier one changes nothing any more. */
  readonly epoch: number;
  /** How often its task was begun since it was asked for, or asked for again. */
  readonly attempts: number;
  /** ISO 8601, UTC. Of a pending one: when to perform it. Of one that is being performed: when its lease ends, and it may be claimed by somebody else. */
  readonly dueAt?: string;
  /** What the effect returned, in the ui projection. */
  readonly result?: JsonValue;
  /** Of the last attempt. */
  readonly failure?: ToolFailure;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A directive as the server keeps it. */
export interface DirectiveRecord extends DirectiveState {
  readonly intent: DirectiveIntent;
}

/** One change of a directive, small enough to be told to other processes. */
export interface DirectiveEvent extends DirectiveReference {
  readonly event: DirectiveEventType;
  readonly type: string;
  readonly subject: string;
  readonly task: DirectiveTask;
  readonly status: DirectiveStatus;
  readonly epoch: number;
  readonly attempts: number;
  readonly runId: string;
  readonly toolCallId: string;
  readonly step: number;
  readonly correlationId: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** A change, told to whoever listens. */
export function toDirectiveEvent(event: DirectiveEventType, record: DirectiveRecord): DirectiveEvent {
  const { intent, task, status, epoch, attempts, updatedAt } = record;
  const { tenant, directiveId, type, subject, correlationId } = intent;
  const { runId, toolCallId, step } = intent.call;
  return {
    event,
    tenant,
    directiveId,
    type,
    subject,
    task,
    status,
    epoch,
    attempts,
    runId,
    toolCallId,
    step,
    correlationId,
    at: updatedAt,
  };
}

/** The state that a change is made from. Where the directive is in another by now, nothing changes. */
export interface DirectiveVersion extends DirectiveReference {
  readonly status: DirectiveStatus;
  readonly epoch: number;
}

/** What a change sets. */
export interface DirectiveChange {
  readonly event: DirectiveEventType;
  readonly status: DirectiveStatus;
  /** @default as it was */
  readonly task?: DirectiveTask;
  /** @default as it was */
  readonly attempts?: number;
  /** Milliseconds from now until it is due. Given for `pending` and `performing`, and for nothing else. */
  readonly dueInMs?: number;
  /** @default as it was */
  readonly result?: JsonValue;
  /** What is left out is taken away. */
  readonly failure?: ToolFailure;
}

/** Which directives to list. */
export interface DirectiveQuery {
  readonly tenant: string;
  readonly status?: DirectiveStatus;
  readonly subject?: string;
  /** Those that this actor asked for. */
  readonly actorId?: string;
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** What `add` came to. */
export interface AddedDirective {
  /** The one that has the key: this one, or who came first. */
  readonly record: DirectiveRecord;
  readonly isNew: boolean;
}

/** Ends the work of a process; resolves once what it has in hand is over. */
export type StopWork = () => Promise<void>;

/**
 * The port that keeps directives and hands them to who performs them. Row and wake-up are one: whatever leaves a directive `pending` or `performing` sees to it, in
 * the same transaction, that a worker is called when it is due, in any process and after any crash. Times are compared by one clock, that of the store.
 */
export abstract class DirectiveStore {
  /** Every change by this process, in order, and those by others where the store hears of them. It never errors. */
  abstract readonly changes$: Observable<DirectiveEvent>;
  /**
   * Keeps it as `pending`, due at once; or answers with the one that has its key already. Atomic: of any number with one key one is new. `first` is done before, and in
   * the same transaction where there are any: what it rejects with keeps the directive out, and what it keeps in the same database is kept with the directive or not at all.
   */
  abstract add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective>;
  abstract find(reference: DirectiveReference): Promise<DirectiveRecord | undefined>;
  /** The newest first. */
  abstract list(query: DirectiveQuery): Promise<readonly DirectiveRecord[]>;
  /**
   * Takes a directive that is due, pending or left by somebody whose lease is over: it is `performing`, its epoch and its attempts are one more, and the lease ends in
   * so many milliseconds. Undefined when there is nothing to take. Atomic: of two at once one takes it.
   */
  abstract claim(reference: DirectiveReference, leaseMs: number): Promise<DirectiveRecord | undefined>;
  /**
   * Has the lease of one that is being performed end in so many milliseconds from now: who claimed it is still at it. False when it is not in that state any more.
   * Nothing is told of it.
   */
  abstract extend(from: DirectiveVersion, leaseMs: number): Promise<boolean>;
  /** The record as it is afterwards; undefined when it was not in that state any more. Atomic. */
  abstract change(from: DirectiveVersion, change: DirectiveChange): Promise<DirectiveRecord | undefined>;
  /**
   * Calls `perform` with every directive that is due, again where it rejects, and so many at once at most. More than one call for one directive, or one too many, does
   * no harm: `claim` decides.
   */
  abstract work(perform: (reference: DirectiveReference) => Promise<void>, concurrency: number): Promise<StopWork>;
}
