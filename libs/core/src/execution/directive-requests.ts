import { Injectable } from '@nestjs/common';
import { type DirectiveRequest, isJsonList, isJsonObject, type JsonObject, type JsonValue, type ToolPreview } from '@toolloop/protocol';
import type { DirectiveAuthority, DirectiveIntent, DirectiveRecord, DirectiveStore } from '../contracts/directive.js';
import type { Tool, ToolDirective } from '../contracts/tool.js';
import { CompiledPolicy } from '../policy/policy-engine.js';
import { sha256, toJson } from '../schema/canonical-json.js';
import { BoundedStores } from './bounded-stores.js';
import { CallAudit } from './call-audit.js';
import { CallFailure } from './call-failure.js';
import type { CallProgress, ExecutionScope, ToolOutcome } from './call.js';
import { requested, shownArguments } from './outcome.js';
import { CallPreview } from './preview.js';
import type { ReadArguments } from './read-arguments.js';

const LONGEST_PART = 256;
const DIGITS_OF_ID = 32;

/** Who decides about what failed or nobody knows of. */
export class DirectiveOperators {
  constructor(
    /** Undefined where everybody decides about what they asked for themselves. */
    readonly roles: readonly string[] | undefined,
  ) {}

  /** For a sentence that a model or a person reads. */
  get described(): string {
    return this.roles ? `Somebody with the role ${this.roles.join(' or ')}` : 'Whoever asked for it';
  }
}

/** In the place of stage 5 and all that follow: a call that was let in is kept as a directive, and its effect happens later. */
@Injectable()
export class DirectiveRequests {
  private readonly store: DirectiveStore;

  constructor(
    stores: BoundedStores,
    private readonly preview: CallPreview,
    private readonly audit: CallAudit,
    private readonly operators: DirectiveOperators,
  ) {
    this.store = stores.directives;
  }

  /** The one that has the key of this call already: of what was asked for nobody has to approve anything. Throws `invalid_args` for a subject that names nothing. */
  async find(tool: Tool, { args }: ReadArguments, progress: CallProgress): Promise<DirectiveRecord | undefined> {
    const directive = directiveOf(tool, progress);
    const { tenant } = progress.scope.run;
    return directive && this.store.find({ tenant, directiveId: idOf(keyOf(directive, args, progress)) });
  }

  /**
   * Throws `forbidden` for an actor without an id, `invalid_args` for a subject that names nothing, and `execution_failed` where a required preview fails, where the
   * key belongs to another request, and where it was asked for before and will not be performed; `unknown_outcome` where nobody knows whether it was.
   */
  async request(tool: Tool, directive: ToolDirective, input: ReadArguments, progress: CallProgress): Promise<ToolOutcome> {
    const { standing } = progress;
    const preview = standing ? standing.intent.preview : await this.preview.of(tool, input, progress);
    const intent = intentOf(tool, directive, input, { progress, preview });
    await this.audit.directed(intent, { tool, input }, progress);
    const { record } = standing ? { record: standing } : await this.store.add(intent, progress.takeApproval);
    if (!isSameRequest(record.intent, intent, directive)) throw CallFailure.of('execution_failed', conflictText(record, directive));
    const refusal = refusalOf(record, this.operators.described);
    if (refusal) throw refusal;
    const shown = requestOf(record, progress.request.call.toolCallId);
    const showing = progress.scope.emit({ type: 'directive-request', step: progress.request.step, directive: shown });
    if (showing) await showing;
    return requested(progress, record.intent.directiveId, answerOf(record));
  }
}

/** What a call becomes that only asks for its effect; undefined where it has the effect itself, as when a directive is performed. */
export function directiveOf({ directive }: Tool, { scope }: CallProgress): ToolDirective | undefined {
  return scope.performing ? undefined : directive;
}

interface RequestedCall {
  readonly progress: CallProgress;
  readonly preview: ToolPreview | undefined;
}

function intentOf(
  tool: Tool,
  directive: ToolDirective,
  { args, canonical }: ReadArguments,
  { progress, preview }: RequestedCall,
): DirectiveIntent {
  const { scope, request } = progress;
  const { tenant, runId } = scope.run;
  const { actorId } = scope;
  if (actorId === undefined)
    throw CallFailure.of('forbidden', 'What happens later happens in the name of somebody, and the actor of this run has no id.');
  const key = keyOf(directive, args, progress);
  const { type } = directive;
  const { toolCallId } = request.call;
  const instance = tool.entity && { instanceId: tool.entity.instanceId };
  return {
    tenant,
    directiveId: idOf(key),
    key,
    type,
    subject: directive.subjectOf(args),
    call: { declaredId: tool.spec.declaredId, ...instance, args: canonical, runId, toolCallId, step: request.step, index: request.index },
    authority: authorityOf(actorId, tool, args, progress),
    shownArgs: shownArguments(args, tool.input.hidden),
    ...(preview && { preview }),
    correlationId: scope.requestId,
    createdAt: new Date().toISOString(),
  };
}

/** Throws `invalid_args`. */
function keyOf(directive: ToolDirective, args: JsonObject, { scope }: CallProgress): string {
  const subject = part('subject', directive.subjectOf(args));
  const last = directive.keyOf ? part('key', directive.keyOf(args)) : scope.requestId;
  return [directive.type, scope.run.tenant, subject, last].map(encoded).join(':');
}

/** The tenant is in the key. */
function idOf(key: string): string {
  return `dir_${sha256(key).slice(0, DIGITS_OF_ID)}`;
}

function authorityOf(actorId: string, { spec }: Tool, args: JsonObject, { scope, request, decision }: CallProgress): DirectiveAuthority {
  const { integrity, confidentiality } = scope.flow;
  const { approvals } = scope;
  const flow = { integrity, confidentiality, traced: wordsIn(args).filter((word) => scope.flow.isTraced(word)) };
  const base = { actorId, policies: narrowingOf(scope), flow };
  if (decision?.kind !== 'require_approval') return base;
  const { rule, policyVersion, approval: terms = [] } = decision;
  const approvalId =
    approvals.approvalOf(request.call.toolCallId) ?? approvals.standingFor(spec.declaredId, `${policyVersion} ${rule}`) ?? '';
  return { ...base, approved: { approvalId, rule, policyVersion, terms } };
}

/** The policies of the run and its loop; the application's own are those of the moment when it is performed. */
function narrowingOf({ policies }: ExecutionScope): DirectiveAuthority['policies'] {
  return policies.flatMap((one) => (one instanceof CompiledPolicy ? [one.policy] : []));
}

/** Texts and numbers at any depth, names included. */
function wordsIn(value: JsonValue): (string | number)[] {
  if (typeof value === 'string' || typeof value === 'number') return [value];
  if (isJsonList(value)) return value.flatMap(wordsIn);
  return isJsonObject(value) ? Object.entries(value).flatMap(([name, item]) => [[name], wordsIn(item)].flat()) : [];
}

function part(name: string, text: string): string {
  if (text.trim() !== '' && text.length <= LONGEST_PART) return text;
  throw CallFailure.of(
    'invalid_args',
    `The arguments that make up the ${name} are empty, or longer than ${LONGEST_PART} characters in total.`,
  );
}

function encoded(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    throw CallFailure.of('invalid_args', 'The arguments hold half a character.');
  }
}

/** A request's id is chosen by its client, so without a key of the tool's own another actor's request is another one. */
function isSameRequest(first: DirectiveIntent, second: DirectiveIntent, directive: ToolDirective): boolean {
  const isSameCall = first.call.declaredId === second.call.declaredId && first.call.instanceId === second.call.instanceId;
  return (
    isSameCall &&
    first.call.args === second.call.args &&
    (directive.keyOf !== undefined || first.authority.actorId === second.authority.actorId)
  );
}

/** What a run's events tell of it. */
export function requestOf({ intent, status }: DirectiveRecord, toolCallId: string): DirectiveRequest {
  const { directiveId, type, subject, preview } = intent;
  return { directiveId, toolCallId, type, subject, status, ...(preview && { preview }) };
}

/** The answer of the blueprint: what was asked for, and that it has not happened yet. */
export function answerOf({ intent, status }: DirectiveRecord): JsonObject {
  const { directiveId, type, subject, preview } = intent;
  const shown = preview && {
    sentence: preview.sentence,
    ...(preview.changes && { changes: toJson(preview.changes) }),
  };
  return {
    ok: true,
    type: `${type}.requested`,
    result: { directive_id: directiveId, status, ...(shown && { preview: shown }), subject },
    human_readable: sentenceFor(status, preview?.sentence ?? `${type} for ${subject}`),
  };
}

/** Why asking again comes to nothing, and what helps; undefined of one that is performed yet, or was. `decider` begins a sentence. */
export function refusalOf({ intent, task, status, failure }: DirectiveRecord, decider: string): CallFailure | undefined {
  const why = failure ? ` ${failure.safeMessage}` : '';
  const isNotAsked = `Nothing was requested now (${intent.directiveId}).`;
  switch (status) {
    case 'pending':
    case 'performing':
    case 'succeeded':
      return undefined;
    case 'dead':
      return CallFailure.of(
        'execution_failed',
        `${task === 'perform' ? 'This was asked for before and failed for good' : 'This was performed before, and undoing it failed for good'}.${why} ` +
          `${isNotAsked} ${decider} can have that tried again.`,
      );
    case 'cancelled':
      return CallFailure.of(
        'execution_failed',
        `This was requested before and cancelled. ${isNotAsked} ${decider} can still have it performed.`,
      );
    case 'compensated':
      return CallFailure.of('execution_failed', `This was performed before and undone, so it is not performed again. ${isNotAsked}`);
    case 'unknown_outcome':
      return CallFailure.of(
        'unknown_outcome',
        `This was begun before and it is unknown whether its effect took place. ${isNotAsked} ${decider} has to check and say so.`,
      );
  }
}

export function conflictText({ intent, status }: DirectiveRecord, directive: ToolDirective): string {
  if (!directive.keyOf)
    return `This request already asked for "${intent.subject}" with other arguments, or for somebody else, so nothing was asked for now.`;
  return `This was already asked for with other arguments (${intent.directiveId}, ${status}), so nothing was asked for now. Look at that one first.`;
}

function sentenceFor(status: DirectiveRecord['status'], what: string): string {
  if (status === 'pending' || status === 'performing') return `Requested: ${what}. It is performed later, once; it has not happened yet.`;
  return `This was requested before: ${what}. Its status is ${status}.`;
}
