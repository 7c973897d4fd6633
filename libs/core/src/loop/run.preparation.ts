import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import type { Toolset } from '../catalog/toolset.js';
import { strictlyListed } from '../execution/tool-permission.js';
import { begunToolset } from '../injection/begun-toolset.js';
import { EntityOffers } from '../injection/entity.offer.js';
import { ToolProviderStrategy } from '../injection/tool-provider.strategy.js';
import { ToolReserve } from '../injection/tool.reserve.js';
import { ActorIdentity } from '../policy/actor.identity.js';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { ConversationKey } from '../protocol/conversation-store.js';
import { ConfigurationError, InvalidRequestError } from '../protocol/errors.js';
import type { Limits } from '../protocol/limits.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest, ToolSelector } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import type { Tool } from '../protocol/tool.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';
import { choiceFindings } from './choice-findings.js';
import { LoopSettings } from './loop.settings.js';
import { checkMessages } from './message.check.js';
import { withProfile } from './named-loop.js';
import type { RunPlan } from './run.plan.js';
import type { ResumedRun } from './suspended.runs.js';
import { StructuredAnswers } from './structured.answer.js';

/** What decides on the tools of a run, and for whom. */
export type ListingRequest<Actor> = Pick<
  LoopRequest<unknown, Actor>,
  'actor' | 'tenant' | 'context' | 'policy' | 'tools' | 'exclude' | 'surface'
>;

/** What a run and its loop each say of the tools; neither can let in what the other keeps out. */
type Narrowing = Pick<LoopRequest, 'policy' | 'tools' | 'exclude' | 'injection'>;

/** Checks a request and turns it into a plan. What cannot be run is refused here, before anything starts. */
@Injectable()
export class RunPreparation {
  private readonly reserve: ToolReserve;
  private readonly offers: EntityOffers;

  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
    private readonly entities: ToolProviderStrategy,
    private readonly answers: StructuredAnswers,
    private readonly identity: ActorIdentity,
  ) {
    this.reserve = new ToolReserve(catalog);
    this.offers = new EntityOffers(catalog);
  }

  /** Throws `InvalidRequestError` for what the caller sent, `ConfigurationError` for what the application wrote. */
  prepare<Output, Actor>(own: LoopRequest<Output, Actor>, profile: LoopProfile, resumed?: ResumedRun): RunPlan<Output> {
    assertIdentified(own);
    assertChoices(own);
    const request = withProfile(profile, own);
    const levels = [...narrowingsBefore(resumed, [own, profile]), own, profile];
    const run = runOf(request, resumed);
    const { instructions = this.settings.options.instructions, output } = request;
    const model = this.settings.modelFor(request.model);
    const execution = { ...this.scopeOf(levels, request, run), ...this.settings.executionFor(request.execution, model) };
    const conversation = this.conversationOf(request, resumed);
    const injection = this.injectionFor(levels, execution, request.surface);
    return {
      model,
      instructions: () => (typeof instructions === 'function' ? instructions(run) : instructions),
      messages: resumed ? [] : messagesOf(request, conversation !== undefined, execution.limits),
      conversation,
      toolset: begunToolset(injection, execution, resumed?.saved.state.records),
      strictListing: this.isStrict,
      execution: { ...execution, requestId: resumed?.saved.requestId ?? request.requestId ?? run.runId },
      quotas: this.settings.quotasFor(run),
      narrowing: levels.flatMap(({ policy }) => policy ?? []),
      injection,
      ...this.stepsOf(request, run),
      answer: output && { type: output, ...this.answers.shapeOf(output) },
      options: request,
    };
  }

  /** The tools such a run would start with. */
  async listed<Actor>(request: ListingRequest<Actor>, profile: LoopProfile): Promise<Toolset> {
    assertIdentified(request);
    const levels = [request, profile];
    const scope = this.scopeOf(levels, request, runOf(request));
    const toolset = begunToolset(this.injectionFor(levels, scope, request.surface ?? profile.surface), scope);
    return this.isStrict ? strictlyListed(toolset, { ...scope, signal: undefined }) : toolset;
  }

  private get isStrict(): boolean {
    return this.settings.options.strictListing ?? false;
  }

  /** Selected and permitted at every level, and sensible for this run. */
  private permittedFor(
    levels: readonly Narrowing[],
    { run, actor, policies }: Pick<RunPlan['execution'], 'run' | 'actor' | 'policies'>,
  ): readonly Tool[] {
    const selected = this.catalog.build(...levels);
    return selected.filter((tool) => decide(policies, subjectOf(tool, actor)).kind !== 'deny' && (tool.when?.(run) ?? true));
  }

  /** For whom the run's calls are made, under which policies and limits. */
  private scopeOf<Actor>(
    levels: readonly Narrowing[],
    { actor, tenant, limits }: Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'limits'>,
    run: RunContext<Actor>,
  ): Pick<RunPlan['execution'], 'run' | 'actorId' | 'actor' | 'policies' | 'limits'> {
    return {
      run,
      actorId: this.identity.idOf(actor),
      actor: { tenant, roles: this.identity.rolesOf(actor) },
      policies: this.settings.policiesFor(levels.map(({ policy }) => policy)),
      limits: this.settings.limitsFor(limits),
    };
  }

  /** The class of an entity stands for the tools of its instances, which know their declared ids only. */
  private excludedFor(levels: readonly Narrowing[]): readonly ToolSelector[] {
    const exclude = levels.flatMap((level) => level.exclude ?? []);
    const ofClasses = this.catalog.entities.definitions.filter(({ type }) => exclude.some((selector) => isOrInherits(type, selector)));
    return [...exclude, ...ofClasses.flatMap(({ tools }) => tools.map(({ template }) => template.spec.declaredId))];
  }

  /** Where injection is off, what strategies keep back stays away: turning it off must not give more. */
  private injectionFor(
    levels: readonly Narrowing[],
    scope: Pick<RunPlan['execution'], 'run' | 'actor' | 'policies'>,
    surface = this.settings.options.surface ?? 'auto',
  ): RunPlan['injection'] {
    const own = levels.toReversed().flatMap(({ injection }) => injection || []);
    const strategies = [this.entities, ...(this.settings.options.injection ?? []), ...own];
    const isOff = levels.some(({ injection }) => injection === false);
    const exclude = this.excludedFor(levels);
    return {
      exclude,
      entities: this.offers.offerFor(isOff ? 'named' : surface, { ...scope, exclude, strictListing: this.isStrict }),
      strategies: isOff ? [] : strategies,
      reserve: this.reserve.divide(this.permittedFor(levels, scope), strategies),
    };
  }

  /** What looks at every step of the run before its model call. */
  private stepsOf<Actor>(request: LoopRequest<unknown, Actor>, run: RunContext<Actor>): Pick<RunPlan, 'history' | 'prepareStep'> {
    const { options } = this.settings;
    const { history = options.history, prepareStep = options.prepareStep } = request;
    return { history, prepareStep: prepareStep && ((step) => prepareStep({ ...step, run })) };
  }

  private conversationOf<Actor>(
    { tenant, actor, ...request }: Pick<LoopRequest<unknown, Actor>, 'conversationId' | 'tenant' | 'actor'>,
    resumed: ResumedRun | undefined,
  ): ConversationKey | undefined {
    const conversationId = resumed ? resumed.saved.conversationId : request.conversationId;
    if (conversationId === undefined) return undefined;
    const actorId = this.identity.idOf(actor);
    if (actorId !== undefined) return { tenant, actorId, conversationId };
    throw invalid(
      'A conversation belongs to an actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
    );
  }
}

/** Throws `ConfigurationError` for a word that is none of an option's. */
function assertChoices<Actor>(request: LoopRequest<unknown, Actor>): void {
  const findings = choiceFindings({ ...request }, 'request');
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function assertIdentified<Actor>({ tenant, actor }: Pick<LoopRequest<unknown, Actor>, 'tenant' | 'actor'>): void {
  if (typeof tenant !== 'string' || tenant === '')
    throw invalid('A run needs a tenant: pass the id of whose data it is about; a single-tenant application passes a constant.');
  if (actor === undefined || actor === null)
    throw invalid('A run needs an actor: pass whom it acts for; an application without users passes a constant.');
}

/** The policies under which a run waited and which nobody says any more: resuming it another way widens nothing. */
function narrowingsBefore(resumed: ResumedRun | undefined, levels: readonly Narrowing[]): readonly Narrowing[] {
  const said = new Set(levels.map(({ policy }) => policy && canonicalDeclaration(policy)));
  return (resumed?.saved.policies ?? []).flatMap((policy) => (said.has(canonicalDeclaration(policy)) ? [] : { policy }));
}

function runOf<Actor>(
  { actor, tenant, context = {} }: Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'context'>,
  resumed?: ResumedRun,
): RunContext<Actor> {
  return { runId: resumed?.runId ?? randomUUID(), actor, tenant, context, state: resumed?.remains?.state ?? new Map<string, unknown>() };
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
