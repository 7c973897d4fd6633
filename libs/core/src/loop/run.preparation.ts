import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { Toolset } from '../catalog/toolset.js';
import { ToolProviderStrategy } from '../injection/tool-provider.strategy.js';
import { decide, type CompiledPolicy } from '../policy/compiled.policy.js';
import type { ConversationKey } from '../protocol/conversation-store.js';
import { InvalidRequestError } from '../protocol/errors.js';
import type { Limits } from '../protocol/limits.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest, ToolSelector } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import { LoopSettings } from './loop.settings.js';
import { checkMessages } from './message.check.js';
import { withProfile } from './named-loop.js';
import type { RunPlan } from './run.plan.js';
import { StructuredAnswers } from './structured.answer.js';

/** What a run and its loop each say of the tools; neither can let in what the other keeps out. */
type Narrowing = Pick<LoopRequest, 'policy' | 'tools' | 'exclude' | 'injection'>;

/** Checks a request and turns it into a plan. What cannot be run is refused here, before anything starts. */
@Injectable()
export class RunPreparation {
  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
    private readonly entities: ToolProviderStrategy,
    private readonly answers: StructuredAnswers,
  ) {}

  /** Throws `InvalidRequestError` for what the caller sent, `ConfigurationError` for what the application wrote. */
  prepare<Output, Actor>(own: LoopRequest<Output, Actor>, profile: LoopProfile): RunPlan<Output> {
    if (typeof own.tenant !== 'string' || own.tenant === '')
      throw invalid('A run needs a tenant: pass the id of whose data it is about; a single-tenant application passes a constant.');
    if (own.actor === undefined || own.actor === null)
      throw invalid('A run needs an actor: pass whom it acts for; an application without users passes a constant.');
    const request = withProfile(profile, own);
    const levels = [own, profile];
    const limits = this.settings.limitsFor(request.limits);
    const policies = this.policiesOf(levels);
    const run: RunContext<Actor> = {
      runId: randomUUID(),
      actor: request.actor,
      tenant: request.tenant,
      context: request.context ?? {},
      state: new Map(),
    };
    const conversation = this.conversationOf(request);
    const { instructions = this.settings.options.instructions, output } = request;
    const model = this.settings.modelFor(request.model);
    const { actor, requestId = run.runId } = request;
    return {
      model,
      instructions: () => (typeof instructions === 'function' ? instructions(run) : instructions),
      messages: messagesOf(request, conversation !== undefined, limits),
      conversation,
      toolset: this.toolsetFor(levels, run, policies),
      execution: {
        run,
        requestId,
        actorId: this.settings.actorIdOf(actor),
        policies,
        limits,
        ...this.settings.executionFor(request.execution, model),
      },
      injection: { exclude: this.excludedFor(levels), strategies: this.strategiesFor(levels) },
      ...this.stepsOf(request, run),
      answer: output && { type: output, ...this.answers.shapeOf(output) },
      options: request,
    };
  }

  /** The tools a run starts with: selected and permitted at every level, and sensible for this run. */
  toolsetFor(levels: readonly Narrowing[], run: RunContext, policies = this.policiesOf(levels)): Toolset {
    const selected = this.catalog.build(...levels);
    return Toolset.of(
      selected.filter(({ spec, origin, when }) => decide(policies, { ...spec, origin }).kind !== 'deny' && (when?.(run) ?? true)),
    );
  }

  private policiesOf(levels: readonly Narrowing[]): readonly CompiledPolicy[] {
    return this.settings.policiesFor(levels.map(({ policy }) => policy));
  }

  /** The class of an entity stands for the tools of its instances, which know their declared ids only. */
  private excludedFor(levels: readonly Narrowing[]): readonly ToolSelector[] {
    const exclude = levels.flatMap((level) => level.exclude ?? []);
    const ofClasses = this.catalog.entities.definitions.filter(({ type }) => exclude.some((selector) => isOrInherits(type, selector)));
    return [...exclude, ...ofClasses.flatMap(({ tools }) => tools.map(({ template }) => template.spec.declaredId))];
  }

  private strategiesFor(levels: readonly Narrowing[]): RunPlan['injection']['strategies'] {
    if (levels.some(({ injection }) => injection === false)) return [];
    const own = levels.toReversed().flatMap(({ injection }) => injection || []);
    return [this.entities, ...(this.settings.options.injection ?? []), ...own];
  }

  /** What looks at every step of the run before its model call. */
  private stepsOf<Actor>(request: LoopRequest<unknown, Actor>, run: RunContext<Actor>): Pick<RunPlan, 'history' | 'prepareStep'> {
    const { options } = this.settings;
    const { history = options.history, prepareStep = options.prepareStep } = request;
    return { history, prepareStep: prepareStep && ((step) => prepareStep({ ...step, run })) };
  }

  private conversationOf({
    conversationId,
    tenant,
    actor,
  }: Pick<LoopRequest, 'conversationId' | 'tenant' | 'actor'>): ConversationKey | undefined {
    if (conversationId === undefined) return undefined;
    const actorId = this.settings.actorIdOf(actor);
    if (actorId !== undefined) return { tenant, actorId, conversationId };
    throw invalid(
      'A conversation belongs to an actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
    );
  }
}

/** What a request says. Of a conversation the server knows the past, so only the newest user message is taken. */
function messagesOf(
  { prompt, messages }: Pick<LoopRequest, 'prompt' | 'messages'>,
  hasConversation: boolean,
  limits: Limits,
): readonly Message[] {
  if (prompt !== undefined && messages !== undefined) throw invalid('Pass `prompt` or `messages`, not both.');
  if (prompt !== undefined) {
    if (typeof prompt !== 'string' || prompt.trim() === '') throw invalid('The prompt is empty: say what the model should do.');
    return [{ role: 'user', content: prompt }];
  }
  const checked = checkMessages(messages ?? [], limits);
  if (!checked.some(({ role }) => role === 'user')) throw invalid('There is no user message: pass `prompt`, or `messages` with one.');
  if (!hasConversation) return checked;
  return checked.filter(({ role }) => role === 'user').slice(-1);
}

function isOrInherits(type: object, selector: ToolSelector): boolean {
  for (let level: object | null = type; level; level = Reflect.getPrototypeOf(level)) if (level === selector) return true;
  return false;
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}
