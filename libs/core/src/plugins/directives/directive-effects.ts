import { Inject, Injectable } from '@nestjs/common';
import type { DirectiveRequest, JsonObject, ToolPreview } from '@toolloop/protocol';
import { coveredBy } from '../../call/authorise.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import { putOnRecord } from '../../call/put-on-record.js';
import { CallContextFactory } from '../../call/call-context.js';
import { CallFailure } from '../../call/call-failure.js';
import type { AuthorisedCall, ExecutionScope, ReadCall } from '../../call/call.js';
import { Interruption } from '../../contracts/interruption.js';
import { Effects, type RequestedEffect, type ToolOutcome } from '../../call/outcome.js';
import { answeredFor, failed } from '../../call/outcomes.js';
import { shownArguments } from '../../call/shown-arguments.js';
import type {
  DirectiveAuthority,
  DirectiveIntent,
  DirectiveRecord,
  DirectiveStore,
} from '../../contracts/directive.js';
import type { CommittableCall } from '../../contracts/policy.js';
import type { ToolDirective } from '../../contracts/tool.js';
import { CompiledPolicy } from '../../policy/compiled-policy.js';
import { subjectOf } from '../../policy/decide.js';
import { TOOL_LOOP_OPTIONS, type ToolLoopOptions } from '../../run/loop-options.js';
import { sha256, toJson } from '../../schema/canonical-json.js';
import { CallPreview } from '../approvals/call-preview.js';
import { conflictText, refusalOf } from './directive-answer.js';
import { DirectiveOperators } from './directive-operators.js';

/**
 * Keeps calls as directives, whose effects happen later: the adapter of the pipeline's port for
 * requested effects.
 */
@Injectable()
export class DirectiveEffects extends Effects {
  private readonly store: DirectiveStore;
  private readonly preview: CallPreview;
  private readonly operators: DirectiveOperators;

  constructor(
    stores: BoundedStores,
    contexts: CallContextFactory,
    @Inject(TOOL_LOOP_OPTIONS) { directives }: ToolLoopOptions,
  ) {
    super();
    this.store = stores.directives;
    this.preview = new CallPreview(contexts);
    this.operators = new DirectiveOperators(directives?.operators);
  }

  /**
   * Looks for the directive that has the key of the call already: what was asked for needs no
   * approval.
   */
  async request(call: ReadCall): Promise<RequestedEffect> {
    const { tool, scope } = call;
    const { directive } = tool;
    if (!directive) throw new TypeError(`${tool.spec.declaredId} declares no directive.`);
    const directiveId = idOf(writeDirectiveKey(directive, call));
    const existing = await this.store.find({ tenant: scope.run.tenant, directiveId });
    return {
      isKnown: existing !== undefined,
      keep: (authorised) => this.keep(authorised, directive, existing),
    };
  }

  /**
   * Keeps the directive of a call, or answers with the existing one.
   *
   * @throws {CallFailure} `forbidden` for an actor without an id, `execution_failed` where a
   *   required preview fails, where the key belongs to another request, and where the effect was
   *   asked for before and will not be performed; `unknown_outcome` where it is unknown whether it
   *   was.
   */
  private async keep(
    call: AuthorisedCall,
    directive: ToolDirective,
    existing: DirectiveRecord | undefined,
  ): Promise<ToolOutcome> {
    const preview = existing ? existing.intent.preview : await this.preview.of(call);
    const intent = intentOf(call, directive, preview);
    const { directiveId, key, type, subject } = intent;
    await putOnRecord(call, { kind: 'later', id: directiveId, details: { key, type, subject } });
    const record = existing ?? (await this.added(intent, call.takeApproval));
    if (!record) return unansweredFor(call, intent);
    if (!isSameRequest(record.intent, intent, directive))
      throw CallFailure.of('execution_failed', conflictText(record, directive));
    const refusal = refusalOf(record, this.operators.described);
    if (refusal) throw refusal;
    const { request, scope } = call;
    await scope.emit({
      type: 'directive-request',
      step: request.step,
      directive: requestOf(record, request.call.toolCallId),
    });
    return answeredFor(call, { directiveId: record.intent.directiveId }, answerOf(record));
  }

  /**
   * Undefined where the run was interrupted before the store had answered, which may keep it yet.
   */
  private async added(
    intent: DirectiveIntent,
    first: AuthorisedCall['takeApproval'],
  ): Promise<DirectiveRecord | undefined> {
    try {
      return (await this.store.add(intent, first)).record;
    } catch (error) {
      if (error instanceof Interruption) return undefined;
      throw error;
    }
  }
}

const LONGEST_PART = 256;
const DIGITS_OF_ID = 32;

/** Describes a call whose directive may have been kept: by its id it is found, and undone. */
function unansweredFor(call: AuthorisedCall, { directiveId }: DirectiveIntent): ToolOutcome {
  const outcome = failed(call, { code: 'unknown_outcome', safeMessage: UNANSWERED });
  return { ...outcome, record: { ...outcome.record, directiveId } };
}

const UNANSWERED =
  'The run ended while this was being asked for, so it may yet be done. Check that before it is asked for again.';

function intentOf(
  call: AuthorisedCall,
  directive: ToolDirective,
  preview: ToolPreview | undefined,
): DirectiveIntent {
  const { tool, input, scope, request } = call;
  const { args, canonical } = input;
  const { tenant, runId } = scope.run;
  const { actorId } = scope;
  if (actorId === undefined)
    throw CallFailure.of(
      'forbidden',
      'What happens later happens in the name of an actor, and that of this run has no id.',
    );
  const key = writeDirectiveKey(directive, call);
  const { type } = directive;
  const { toolCallId } = request.call;
  const instance = tool.entity && { instanceId: tool.entity.instanceId };
  return {
    tenant,
    directiveId: idOf(key),
    key,
    type,
    subject: directive.subjectOf(namedIn(call)),
    call: {
      declaredId: tool.spec.declaredId,
      ...instance,
      args: canonical,
      runId,
      toolCallId,
      step: request.step,
      index: request.index,
    },
    authority: authorityOf(actorId, call),
    shownArgs: shownArguments(args, tool.input.hidden),
    ...(preview && { preview }),
    correlationId: scope.requestId,
    createdAt: new Date().toISOString(),
  };
}

/** @throws {CallFailure} `invalid_args`. */
function writeDirectiveKey(directive: ToolDirective, call: ReadCall): string {
  const { tool, scope } = call;
  const args = namedIn(call);
  const subject = part('subject', directive.subjectOf(args));
  const last = directive.keyOf ? part('key', directive.keyOf(args)) : scope.requestId;
  // the same words about two instances are two directives
  const instance = tool.entity ? [tool.entity.instanceId] : [];
  return [directive.type, scope.run.tenant, ...instance, subject, last].map(encoded).join(':');
}

/**
 * The values that the templates of a directive can name: the arguments, and the id of the instance.
 */
function namedIn({ tool, input }: ReadCall): JsonObject {
  return tool.entity ? { instanceId: tool.entity.instanceId, ...input.args } : input.args;
}

/** The tenant is in the key. */
function idOf(key: string): string {
  return `dir_${sha256(key).slice(0, DIGITS_OF_ID)}`;
}

function authorityOf(actorId: string, call: AuthorisedCall): DirectiveAuthority {
  const { tool, input, scope, charge } = call;
  const { args } = input;
  const { integrity, confidentiality, outsideBits } = scope.flow;
  const instance = tool.entity && { instanceId: tool.entity.instanceId };
  const asked = {
    args,
    spent: { calls: scope.spending.calls.filter((one) => one !== charge) },
    ...instance,
  };
  const subject = subjectOf(tool, scope.actor);
  const isFixed = (fixed: CommittableCall['fixed']): boolean =>
    scope.flow.isCommitted(subject, { ...asked, fixed });
  const flow: DirectiveAuthority['flow'] = {
    integrity,
    confidentiality,
    ...(outsideBits < Infinity && { outsideBits }),
    committed: isFixed('every') || (isFixed('decisive') && 'decisive'),
    ...(input.outside && input.outside.length > 0 && { outside: input.outside }),
  };
  const approved = approvalFor(call);
  return { actorId, policies: narrowingOf(scope), flow, ...(approved && { approved }) };
}

/**
 * The approval on which a call rests. Where people trusted something, they are whom policy asks
 * once that is not known any more.
 */
function approvalFor({
  tool,
  scope: { approvals },
  request,
  decision,
}: AuthorisedCall): DirectiveAuthority['approved'] {
  if (!decision || (decision.kind !== 'require_approval' && decision.endorsedBy === undefined))
    return undefined;
  const { rule, policyVersion, endorsedBy, approval: terms = [] } = decision;
  const covered = coveredBy(decision, tool);
  const { form } = covered;
  if (endorsedBy !== undefined) return { approvalId: endorsedBy, rule, policyVersion, terms, form };
  const approvalId =
    approvals.askedBy(request.call.toolCallId) ?? approvals.standingFor(covered) ?? '';
  return { approvalId, rule, policyVersion, terms, form };
}

/**
 * The policies of the run and its loop; the application's own are those of the moment when it is
 * performed.
 */
function narrowingOf({ policies }: ExecutionScope): DirectiveAuthority['policies'] {
  return policies.flatMap((one) => (one instanceof CompiledPolicy ? [one.policy] : []));
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

/**
 * A request's id is chosen by its client, so without a key of the tool's own another actor's
 * request is another one.
 */
function isSameRequest(
  first: DirectiveIntent,
  second: DirectiveIntent,
  directive: ToolDirective,
): boolean {
  const isSameCall =
    first.call.declaredId === second.call.declaredId &&
    first.call.instanceId === second.call.instanceId;
  return (
    isSameCall &&
    first.call.args === second.call.args &&
    (directive.keyOf !== undefined || first.authority.actorId === second.authority.actorId)
  );
}

/** Returns the request as a run's events report it. */
function requestOf({ intent, status }: DirectiveRecord, toolCallId: string): DirectiveRequest {
  const { directiveId, type, subject, preview } = intent;
  return { directiveId, toolCallId, type, subject, status, ...(preview && { preview }) };
}

/** The answer of the blueprint: what was asked for, and that it has not happened yet. */
function answerOf({ intent, status }: DirectiveRecord): JsonObject {
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

function sentenceFor(status: DirectiveRecord['status'], what: string): string {
  if (status === 'pending' || status === 'performing')
    return `Requested: ${what}. It is performed later, once; it has not happened yet.`;
  return `This was requested before: ${what}. Its status is ${status}.`;
}
