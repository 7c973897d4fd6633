import { isDeepStrictEqual } from 'node:util';
import { HttpException } from '@nestjs/common';
import type { Decision, JsonObject, ToolFailure } from '@toolloop/protocol';
import { isUsable, type PendingAnswer, type PendingApproval } from '../contracts/pending.js';
import type { PolicyCall, PolicySubject, RunSpending } from '../contracts/policy.js';
import type { Tool, ToolLayers } from '../contracts/tool.js';
import { isExpired } from '../plugins/inbox/pending.service.js';
import { decide, subjectOf } from '../policy/decide.js';
import { areSamePeople } from '../policy/rules.js';
import { type CoveredCalls } from '../plugins/approvals/run-approvals.js';
import type { OutsideArgument } from '../plugins/values/value-references.js';
import { canonicalJson, fromCanonical, sha256 } from '../schema/canonical-json.js';
import { compileReveal } from '../schema/reveal.js';
import type { SchemaValidators } from '../schema/validators.js';
import { type ApprovalQuestion, unaskableReason } from '../plugins/approvals/approval-question.js';
import { type AskedApprovals } from '../plugins/approvals/asked-approvals.js';
import type { CallContextFactory } from './call-context.js';
import { CallFailure, explained, failureOf } from './call-failure.js';
import { Interruption, untilAborted } from '../contracts/interruption.js';
import {
  advance,
  type AuthorisedCall,
  type DecidedCall,
  inPlace,
  type ReadArguments,
  type ReadCall,
} from './call.js';
import { type SubRunCheckpoint } from '../plugins/sub-runs/sub-runs.js';
import { CallPending, type Effects } from './outcome.js';
import { withRulings } from './plugin-rulings.js';
import { putOnRecord } from './put-on-record.js';
import { preflightOf } from '../plugins/approvals/call-preview.js';
import { readArguments, readInput } from './read-arguments.js';
import { deniedToolMessage, denialOf, type ToolResolution } from './resolve-tool.js';
import { limitsOf } from './call-limits.js';
import { withWord } from './permission.js';
import { hashShownForm } from '../plugins/approvals/shown-form.js';

/**
 * Stage 4: Nest's guards and pipes, then policy's decision on this very call, and a person's yes to
 * it where policy asks for one.
 */
export class Authorisation {
  private readonly json = compileReveal('all');

  constructor(private readonly parts: AuthorisationParts) {}

  /**
   * Lets a call in, with the input that its method receives: the pipes' or the approver's where
   * they changed it.
   *
   * @throws {CallFailure} `forbidden`, `invalid_args`, `policy_denied`, `budget_exceeded` or
   *   `approval_denied`.
   * @throws {CallPending} Where the run waits for an answer.
   */
  async authorise(call: ReadCall): Promise<AuthorisedCall> {
    const { tool, scope, request } = call;
    if (request.refusal) throw new CallFailure(request.refusal);
    const layers = tool.layers?.(scope.run);
    const input = layers ? await this.admitted(call, layers) : call.input;
    if (request.approvedAs !== undefined && sha256(input.canonical) !== request.approvedAs)
      throw CallFailure.of('approval_denied', OTHER_ARGUMENTS);
    const sent = advance(call, { input, sent: input });
    if (request.checkpoint) return this.resumeSubRun(sent, request.checkpoint);
    if (!tool.directive || scope.performing || scope.rehearsal) return this.decide(sent);
    return this.decide(advance(sent, { requested: await this.parts.effects.request(sent) }));
  }

  /**
   * Lets a call in once more. Policy, the tool's own word and the entity it belongs to may have
   * changed while the run waited.
   *
   * @throws As {@link authorise} does.
   */
  async authoriseAgain(call: AuthorisedCall): Promise<AuthorisedCall> {
    return this.decide(await this.parts.resolution.permit(advance(call, { input: call.sent })));
  }

  /**
   * A sub-run that waited was let in when it began, which is in the audit; its calls are decided
   * one by one. That the tool is still permitted was asked before.
   */
  private resumeSubRun(call: AuthorisedCall, checkpoint: SubRunCheckpoint): AuthorisedCall {
    if (call.request.isDeferred) throw new CallPending(undefined, checkpoint);
    return advance(call, { input: { ...call.input, args: checkpoint.args } });
  }

  /**
   * Budgets may be used up once the tool has been asked. In a rehearsal no one is asked: its calls
   * are approved together, once all are known.
   */
  private async decide(call: AuthorisedCall): Promise<AuthorisedCall> {
    const { tool, request, scope } = call;
    if (tool.preflight && !request.isDeferred) await this.preflighted(judge(call));
    const judged = judge(call);
    const needsNoOne = judged.decision.kind === 'allow' || scope.rehearsal !== undefined;
    const isLetIn =
      needsNoOne &&
      !request.isDeferred &&
      scope.approvals.askedBy(request.call.toolCallId) === undefined;
    if (!isLetIn) return this.confirmed(judged);
    const charging = charge(judged); // in the turn of the decision: parallel calls must see it
    assertLeft(judged, await charging);
    await putOnRecord(judged, { kind: 'decision', decision: judged.decision });
    return judged;
  }

  /**
   * Asks the tool itself about a call that policy has allowed, with this input.
   *
   * @throws {CallFailure} `policy_denied`.
   */
  private async preflighted(call: JudgedCall, input = call.input): Promise<void> {
    const decision = withWord(
      await preflightOf({ ...call, input }, this.parts.contexts),
      call.decision,
      'preflight',
    );
    if (decision.kind === 'deny')
      throw denialOf(advance(call, { decision }), deniedToolMessage(call));
  }

  private async confirmed(call: JudgedCall): Promise<AuthorisedCall> {
    const input =
      call.decision.kind === 'allow' ? await this.honoured(call) : await this.approved(call);
    if (!input) return this.authoriseAgain(call); // which charges it
    const confirmed = advance(call, { input });
    await charge(confirmed); // a person has said yes to it, whatever else was counted meanwhile
    return confirmed;
  }

  /**
   * A person may have been asked about this very call: what policy says by now takes no answer
   * back, and gives none.
   */
  private async honoured(call: JudgedCall): Promise<ReadArguments> {
    const { request, scope } = call;
    if (request.isDeferred) throw new CallPending();
    const approvalId = scope.approvals.askedBy(request.call.toolCallId);
    const record = await this.parts.approvals.find(approvalId);
    if (!record) return this.letIn(call);
    const { answer } = record;
    if (answer && !isUsable(answer)) throw CallFailure.of('approval_denied', denialText(answer));
    if (!answer && !isExpired(record)) throw new CallPending('approval');
    // what was made of it holds, though no one need be asked
    return answer?.args ? this.made(answer.args, call, record) : this.letIn(call);
  }

  /** The call as its approver made it. */
  private made(
    args: JsonObject,
    call: JudgedCall,
    record: PendingApproval,
  ): Promise<ReadArguments> {
    return this.edited(call, withHidden(args, call.input.args, call.tool.input.hidden), record);
  }

  /** The input that a person said yes to; undefined where the answer came while the run waited. */
  private async approved(call: JudgedCall): Promise<ReadArguments | undefined> {
    const { decision, scope, request } = call;
    if (scope.approvals.covers(decision, hashShownForm(call.tool))) return this.letIn(call);
    // what a person is asked about is known to the process that continues the run
    await scope.journal?.kept();
    const question = {
      ...questionFor(decision),
      standing: scope.approvals.stoodFor(coveredBy(decision, call.tool)),
    };
    const asked = await this.parts.approvals.findSame(
      scope.approvals.askedBy(request.call.toolCallId),
      call,
      question,
    );
    if (!isSettled(call, asked)) return this.answered(call, question, asked);
    if (request.isDeferred) throw new CallPending();
    return asked ? call.input : this.letIn(call);
  }

  /** Records the decision on a call that needs no further answer. */
  private async letIn(call: JudgedCall): Promise<ReadArguments> {
    await putOnRecord(call, { kind: 'decision', decision: call.decision });
    return call.input;
  }

  /**
   * The decision is in the audit before anybody is asked, and not again when the call is looked at
   * once more.
   */
  private async answered(
    call: JudgedCall,
    question: ApprovalQuestion,
    asked: PendingApproval | undefined,
  ): Promise<ReadArguments | undefined> {
    const { approvals } = this.parts;
    if (!asked) await putOnRecord(call, { kind: 'decision', decision: call.decision });
    assertAskable(call);
    const record = asked ?? (await this.ask(call, question));
    if (!record.answer) {
      if (!isExpired(record) && (await approvals.answered(record, call))) return undefined;
      throw CallFailure.of(
        'approval_denied',
        'The call was not approved in time, so it was not made.',
      );
    }
    if (call.request.isDeferred) throw new CallPending();
    return this.use(record, record.answer, call);
  }

  private async ask(call: JudgedCall, question: ApprovalQuestion): Promise<PendingApproval> {
    const record = await this.parts.approvals.ask(call, question);
    const { scope, request } = call;
    scope.approvals.ask(request.call.toolCallId, record.id);
    return record;
  }

  /**
   * An approval is used once, and in time; that of a requested effect is used up with its request.
   */
  private async use(
    record: PendingApproval,
    answer: PendingAnswer,
    call: JudgedCall,
  ): Promise<ReadArguments> {
    const { tool, input, decision, scope, requested } = call;
    // it was asked under another
    if (record.binding.policyVersion !== decision.policyVersion)
      await putOnRecord(call, { kind: 'decision', decision });
    if (!hasWaited(call)) await this.parts.approvals.tell(record, answer, call);
    if (!isUsable(answer)) throw CallFailure.of('approval_denied', denialText(answer));
    const take = async (): Promise<void> => {
      if (!isUsedForThisCall(record, call)) await this.useUp(record);
      if (answer.remember && questionFor(decision).mayRemember)
        scope.approvals.remember(coveredBy(decision, tool), record.id);
    };
    if (requested) advance(call, { takeApproval: take });
    else await take();
    const made = answer.args ? await this.made(answer.args, call, record) : input;
    if (answer.endorse)
      scope.approvals.endorse({ ...coveredBy(decision, tool), args: made.args }, record);
    return made;
  }

  private async useUp(record: PendingApproval): Promise<void> {
    const refusal = await this.parts.approvals.use(record);
    if (refusal !== undefined)
      throw CallFailure.of('approval_denied', `${refusal}, so the call was not made.`);
  }

  /**
   * The arguments that the approver put in the place of the model's, through every check that those
   * went through.
   */
  private async edited(
    call: JudgedCall,
    args: JsonObject,
    { admitted }: PendingApproval,
  ): Promise<ReadArguments> {
    const { tool, scope } = call;
    const { outside } = call.input; // a person who changes a word has not written the rest
    const read = {
      ...call,
      input: {
        ...(await readArguments(this.parts.validators, call, JSON.stringify(args))),
        ...(outside && { outside }),
      },
    };
    const layers = tool.layers?.(scope.run);
    const input = layers ? await this.admitted(read, layers) : read.input;
    const judged = judge(call, input.args); // a yes does not let in what is denied
    if (tool.preflight) await this.preflighted(judged, input);
    const { decision } = judged;
    if (decision.kind === 'require_approval' && !areSamePeople(admitted, decision.approval ?? []))
      throw CallFailure.of(
        'approval_denied',
        'What the approver made of the call needs the approval of another person.',
      );
    await putOnRecord({ ...call, input }, { kind: 'decision', decision });
    return input;
  }

  /** The input as guards and pipes let it in, rebuilt from its canonical JSON. */
  private async admitted(call: ReadCall, finding: LayersOf): Promise<ReadArguments> {
    const piped = await this.piped(call, finding);
    return piped === call.input.built ? call.input : this.rebuilt(call, piped);
  }

  /**
   * Within the tool's time limit, like all code of the application. A call that guards and pipes do
   * not clearly let in stays out.
   */
  private async piped(call: ReadCall, finding: LayersOf): Promise<unknown> {
    const { built } = call.input;
    const { context, close } = this.parts.contexts.open(call);
    let layers: ToolLayers | undefined;
    try {
      layers = await untilAborted(Promise.resolve(finding), context.signal);
      if (!layers) return built;
      const { admit } = layers;
      const run = (): Promise<unknown> =>
        this.parts.contexts.run(context, () => admit(built, context));
      return await inPlace(call, () => untilAborted(run(), context.signal));
    } catch (error) {
      if (context.signal.aborted) throw Interruption.from(context.signal);
      const known = await explained(layers, error, { input: built, context });
      throw new CallFailure(refusalOf(error, known), { cause: error });
    } finally {
      close();
    }
  }

  /**
   * Rebuilds the input from the JSON of the pipes' result, so that the method receives exactly the
   * arguments that were approved and stored.
   */
  private async rebuilt(call: ReadCall, piped: unknown): Promise<ReadArguments> {
    const { tool, options } = call;
    const canonical = canonicalJson(this.json.project({ ...asRecord(piped) }, 'audit'));
    const args: JsonObject = fromCanonical(canonical);
    const reading = await readInput(tool.input, args, options);
    if ('problems' in reading)
      throw CallFailure.of('invalid_args', 'The arguments are not valid.', reading.problems);
    const { outside } = call.input;
    const told = outside && { outside: carriedOn(outside, call.input.args, args) };
    return { canonical, args, built: reading.value, beforePipes: call.input, ...told };
  }
}

/** The services of stage 4. */
export interface AuthorisationParts {
  readonly resolution: ToolResolution;
  readonly validators: SchemaValidators;
  readonly contexts: CallContextFactory;
  readonly approvals: AskedApprovals;
  readonly effects: Effects;
}

/** A call that policy has decided on, with the arguments as they were sent. */
type JudgedCall = DecidedCall & AuthorisedCall;

/**
 * The arguments that hold text from outside once pipes have changed some: what they put into
 * another one is from outside there as well.
 */
function carriedOn(
  outside: readonly OutsideArgument[],
  before: JsonObject,
  after: JsonObject,
): readonly OutsideArgument[] {
  const from = outside.flatMap((one) => one.from);
  const changed = Object.keys(after).filter(
    (name) => from.length > 0 && !isDeepStrictEqual(before[name], after[name]),
  );
  return [...outside, ...changed.map((name) => ({ name, from }))];
}

const OTHER_TOOL =
  'The tool is another than the one that a person approved, so the call was not made.';
const OTHER_ARGUMENTS =
  'The arguments would not be those that were approved, so the call was not made.';

type LayersOf = ToolLayers | Promise<ToolLayers | undefined>;

/**
 * Asks policy about this very call.
 *
 * @throws {CallFailure} `policy_denied` or `budget_exceeded`.
 */
function judge<From extends ReadCall>(
  call: From,
  args = call.input.args,
  spent: RunSpending = call.scope.spending,
): From & { readonly decision: Decision } {
  const { tool, scope } = call;
  const { flow } = scope;
  const instance = tool.entity && { instanceId: tool.entity.instanceId };
  const { outside } = call.input;
  const asked = { args, flow, spent, ...(outside && { outside }), ...instance };
  const subject = { ...subjectOf(tool, scope.actor), call: asked };
  const decided =
    scope.approvals.endorsed.length > 0
      ? decideTrusting(call, subject)
      : decide(scope.policies, subject);
  const decision = withRulings(call, decided);
  if (decision.callBudget !== call.decision?.callBudget)
    advance(call, { limits: limitsOf(tool, scope, decision) });
  const judged = advance(call, { decision });
  if (decision.kind !== 'deny') return judged;
  if (decision.isOverBudget) throw CallFailure.of('budget_exceeded', decision.reason);
  throw denialOf(call, deniedToolMessage(call));
}

/**
 * Decides with what people trust in this run, and where a person would be asked without it names
 * the approval since which none is.
 */
function decideTrusting(
  { tool, scope }: ReadCall,
  subject: PolicySubject & { readonly call: PolicyCall },
): Decision {
  const { policies, approvals } = scope;
  const form = hashShownForm(tool);
  const given = approvals.endorsed.filter((one) => one.form === undefined || one.form === form);
  const all = given.map((one) => one.endorsed);
  const trusting = (endorsed = all): Decision =>
    decide(policies, { ...subject, call: { ...subject.call, endorsed } });
  const decision = trusting();
  if (decision.kind !== 'allow' || decide(policies, subject).kind !== 'require_approval')
    return decision;
  const by = given.find((_, index) => trusting(all.slice(0, index + 1)).kind === 'allow');
  return by ? { ...decision, endorsedBy: by.approvalId } : decision;
}

function assertAskable({ tool, scope, decision }: JudgedCall): void {
  if (scope.performing && scope.approvals.isOfAnother(hashShownForm(tool)))
    throw CallFailure.of('approval_denied', OTHER_TOOL);
  const why = unaskableReason(scope);
  if (why !== undefined)
    throw CallFailure.of(
      'approval_denied',
      `The call was not made. It needs a person's approval: ${decision.reason} ${why}`,
    );
}

/**
 * Counts a call that is let in, at once. Resolves to what was spent elsewhere by then, if several
 * processes count.
 */
function charge(call: ReadCall): Promise<RunSpending | undefined> {
  const { tool, input, scope } = call;
  const entry = {
    declaredId: tool.spec.declaredId,
    trusted: tool.origin.trusted,
    args: input.args,
  };
  advance(call, { charge: entry });
  return scope.spending.charge(entry);
}

/** Another process may have used up the budget since the call was decided. */
function assertLeft(call: JudgedCall, elsewhere: RunSpending | undefined): void {
  if (!elsewhere) return;
  const { decision } = judge(call, call.input.args, elsewhere);
  if (decision.kind !== 'allow') throw CallFailure.of('budget_exceeded', decision.reason);
}

/**
 * Returns whether the call needs no further question: an approval holds for it, or it is answered
 * with the directive that it requested before. A denial of this very call, or a change of its
 * arguments, goes before an approval of all calls of the rule.
 */
function isSettled(
  { tool, decision, scope, requested }: JudgedCall,
  asked: PendingApproval | undefined,
): boolean {
  if (asked?.answer && (!isUsable(asked.answer) || asked.answer.args)) return false;
  const standing = scope.approvals.standingFor(coveredBy(decision, tool));
  return standing !== undefined || (!asked && requested?.isKnown === true);
}

/**
 * Returns whether an approval was used for this very call: by a process that is gone, or before a
 * person was asked about a repetition. The journal knows the call's outcome.
 */
function isUsedForThisCall({ usedAt }: PendingApproval, { request, scope }: JudgedCall): boolean {
  const { toolCallId } = request.call;
  const wasLetIn =
    scope.approvals.hasLetIn(toolCallId) || scope.approvals.repeatOf(toolCallId) !== undefined;
  return usedAt !== undefined && (request.mayHaveRun === true || wasLetIn);
}

/** Returns whether the call was let in before, and has waited for a value since. */
function hasWaited({ request, scope }: JudgedCall): boolean {
  return scope.approvals.hasLetIn(request.call.toolCallId);
}

/** Restores the arguments that the approver could not see, and so cannot have changed. */
function withHidden(edited: JsonObject, sent: JsonObject, hidden: readonly string[]): JsonObject {
  const changed = Object.entries(edited).filter(([name]) => !hidden.includes(name));
  return Object.fromEntries([
    ...changed,
    ...Object.entries(sent).filter(([name]) => hidden.includes(name)),
  ]);
}

function denialText({ decision, reason }: PendingAnswer): string {
  const done =
    decision === 'withdraw'
      ? 'The actor of the run withdrew this call.'
      : 'A person denied this call.';
  return `${done}${reason === undefined ? '' : ` They said: ${reason}`}`;
}

function questionFor({
  reason,
  rule,
  policyVersion,
  endorsable,
  approval: terms = [],
}: Decision): ApprovalQuestion {
  const mayEdit = terms.length > 0 && terms.every((one) => one.mayEdit);
  const mayRemember = terms.length > 0 && terms.every((one) => one.mayRemember);
  return {
    reason,
    rule,
    policyVersion,
    terms,
    mayEdit,
    mayRemember,
    ...(endorsable && { endorsable }),
  };
}

/**
 * Returns the calls that a yes to one of them covers, if its approver says so: under the rule of
 * this version of the policy, and of the tool as it is.
 */
export function coveredBy(
  { rule, policyVersion }: Pick<Decision, 'rule' | 'policyVersion'>,
  tool: Tool,
): CoveredCalls {
  return {
    declaredId: tool.spec.declaredId,
    rule: `${policyVersion} ${rule}`,
    form: hashShownForm(tool),
  };
}

function asRecord(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

/** A guard that throws anything but a bad request did not let the call in, whatever it meant. */
function refusalOf(error: unknown, explanation: ToolFailure | undefined): ToolFailure {
  const failure = explanation ?? failureOf(error);
  const status = error instanceof HttpException ? error.getStatus() : undefined;
  if (error instanceof HttpException && (status === 400 || status === 422))
    return { ...failure, code: 'invalid_args', ...problemsOf(error) };
  if (status === 429) return { ...failure, code: 'budget_exceeded', retryable: true };
  const isTold = explanation !== undefined || failure.correlationId === undefined;
  return isTold
    ? { ...failure, code: 'forbidden' }
    : { ...failure, code: 'forbidden', safeMessage: 'The call was not permitted.' };
}

/** Nest's validation pipe says everything in a list. */
function problemsOf(error: HttpException): Pick<ToolFailure, 'problems'> {
  const response = error.getResponse();
  const messages: unknown =
    typeof response === 'object' && 'message' in response ? response.message : undefined;
  if (!Array.isArray(messages)) return {};
  return {
    problems: messages.slice(0, 10).map((message) => ({ pointer: '', message: String(message) })),
  };
}
