import type { Decision, ToolSpec } from '@toolloop/protocol';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import { selects, selectsClass } from '../../catalog/tool-selection.js';
import { Toolset } from '../../catalog/toolset.js';
import type {
  EntitySurface,
  RunBeginning,
  ToolInjection,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import type { LoopRequest } from '../../contracts/loop-request.js';
import type { ToolSelector } from '../../contracts/tool-selector.js';
import type { InformationFlow } from '../../contracts/policy.js';
import type { Tool } from '../../contracts/tool.js';
import { Logger } from '../../findings/logger.js';
import { decide, isPermitted, subjectOf } from '../../policy/decide.js';
import { revisionOf } from '../../policy/rules.js';
import { SpendingLedger } from '../usage/spending.js';
import { applyPermitted, type InjectionRules } from './apply-injection.js';
import { EntityOffer, type OfferRules } from '../entities/entity-offer.js';
import { EntitySurfaces } from '../entities/entity-surfaces.js';
import { RunInstances } from '../entities/run-instances.js';
import { authorityKey, nameOf, selectionKey } from '../../catalog/list-key.js';
import { ToolLists } from '../../catalog/tool-lists.js';
import { type RunReserve, ToolReserve } from './tool-reserve.js';

/**
 * Decides which tools a run has. A step's list is
 *
 *     catalog ▸ selection ▸ permission ▸ withheld ▸ injected ▸ surfaced
 *
 * - the catalog's tools that every level selects ({@link ToolCatalog.build}),
 * - that policies permit the actor and whose `when` holds for the run,
 * - without those that strategies withhold ({@link ToolReserve.divide}),
 * - with those that strategies add at the start and after each result ({@link applyPermitted},
 *   under permission and caps),
 * - with tools of entities behind a surface if the run has one ({@link EntityOffer}).
 *
 * The list is made anew when the authority changes; after a result, or when a run is resumed, tools
 * are added to and removed from the current toolset, so that earlier tools keep their order and
 * bytes. A removal has a cause, which decides whether the tool can come back.
 */
export class ToolListing {
  private readonly reserve: ToolReserve;
  private readonly lists = new ToolLists();
  /** The toolsets that runs begin with, by the tools that they keep and their dispatcher. */
  private readonly begunWith = new WeakMap<readonly Tool[], WeakMap<object, Toolset>>();
  private surfaces: EntitySurfaces | undefined;

  /** @param admit removes the parts of an injection that may not be applied */
  constructor(
    private readonly catalog: ToolCatalog,
    private readonly admit: (injection: ToolInjection) => ToolInjection,
  ) {
    this.reserve = new ToolReserve(catalog);
  }

  /**
   * Lists the tools of a run. Without injection, the tools that strategies withhold stay withheld:
   * turning it off must not give more.
   *
   * @throws InvalidRequestError for a name that no tool has
   */
  list(
    rules: ListingRules,
    scope: ListingScope,
    before?: Pick<RunBeginning, 'records' | 'shown'>,
  ): ListedTools {
    const { levels, strategies, surface, strictListing } = rules;
    const isOff = levels.some(({ injection }) => injection === false);
    const exclude = this.excludedBy(levels);
    this.surfaces ??= new EntitySurfaces(this.catalog.entities);
    const entities = new EntityOffer(isOff ? 'named' : surface, this.surfaces, {
      ...scope,
      exclude,
      strictListing,
    });
    const reserve = this.reserve.divide(this.permitted(rules, scope), strategies);
    const injection = { exclude, entities, strategies: isOff ? [] : strategies, reserve };
    return { injection, toolset: this.begun(injection, scope, before) };
  }

  /**
   * Returns the reasons for which a run starts with a tool or not, in the order in which
   * {@link list} asks for them. `levels` are those of the request and of its loop.
   */
  reasons(
    tool: Pick<Tool, 'spec' | 'origin'> & Partial<Tool>,
    { levels, strategies }: ListingRules,
    scope: ListingScope,
  ): ListingReason[] {
    const { spec, origin } = tool;
    const decision = decide(scope.policies, subjectOf(tool, scope.actor));
    const from = `It comes from "${origin.source}", which is ${origin.trusted ? 'trusted' : 'not trusted: only a policy that names its exact id permits it'}.`;
    const selection = levels.map((level, index) =>
      this.selectionBy(level, index === 0 ? 'request' : 'loop', spec),
    );
    const asked: (ListingReason | false)[] = [
      { by: 'source', holds: true, reason: from },
      ...selection,
      {
        by: 'policy',
        holds: decision.kind !== 'deny',
        reason: decision.reason,
        decision: decision.kind === 'deny' ? decision : firstCallOf(tool, scope),
      },
      tool.unlisted === true && {
        by: 'selection',
        holds: false,
        reason: 'It is `unlisted`: no model is offered it, and it is called by its id.',
      },
      tool.when !== undefined && {
        by: 'when',
        ...toldBy(tool.when(scope.run), 'The `when` of the tool'),
      },
      tool.subRun !== undefined && {
        by: 'subRuns',
        ...toldBy(scope.limits.subRunDepth > 0, '`limits.subRunDepth`'),
      },
      this.withholding(spec, strategies),
      this.comingOf(spec),
    ];
    return asked.filter((reason) => reason !== false);
  }

  private selectionBy(level: ToolNarrowing, name: string, spec: ToolSpec): ListingReason {
    const own = this.catalog.find(spec.declaredId);
    const isIn = own
      ? this.catalog.build(level).includes(own)
      : !this.excludedBy([level]).some((selector) => selects(selector, { tool: { spec } }));
    return {
      by: 'selection',
      holds: isIn,
      reason: `The ${name} ${isIn ? 'selects it' : 'leaves it out by `tools` or `exclude`'}.`,
    };
  }

  private comingOf({ declaredId }: ToolSpec): ListingReason | false {
    const definition = this.catalog.entities.definitions.find(({ tools }) =>
      tools.some(({ template }) => template.spec.declaredId === declaredId),
    );
    return (
      definition !== undefined && {
        by: 'entity',
        holds: false,
        reason: `It comes with an instance of ${definition.type.name}, when a tool returns one.`,
      }
    );
  }

  private withholding(
    spec: ToolSpec,
    strategies: readonly ToolInjectionStrategy[],
  ): ListingReason | false {
    const by = strategies.find(
      ({ withheld = [] }) =>
        withheld.length > 0 &&
        [...this.reserve.selected(withheld)].some((one) => one.spec.id === spec.id),
    );
    if (!by) return false;
    return {
      by: 'strategy',
      holds: false,
      reason: `${by.constructor.name} holds it back until the run has come that far.`,
    };
  }

  /**
   * Returns the tools that every level selects, policies permit and whose `when` holds. A list is
   * kept by all that decides on it.
   */
  private permitted(rules: ListingRules, scope: ListingScope): readonly Tool[] {
    const { levels, declared = [], isWithoutModel = false } = rules;
    const { run, policies, actor, limits } = scope;
    const basis = [nameOf(this.catalog.contents), revisionOf(policies), run.tenant];
    const keys = [selectionKey(levels), authorityKey(policies, actor)];
    const isKeyed = keys.every((key) => key !== undefined);
    const key = isKeyed
      ? JSON.stringify([...basis, ...keys, isWithoutModel, limits.subRunDepth > 0])
      : undefined;
    const listed = this.lists.of(run, key, () => this.selectedFor(rules, scope));
    if (declared.length === 0) return listed;
    const exclude = this.excludedBy(levels);
    const ofClient = declared.filter(
      (tool) =>
        !exclude.some((selector) => selects(selector, { tool })) && isPermitted(tool, scope),
    );
    return [...listed, ...ofClient.filter((tool) => tool.when?.(run) ?? true)];
  }

  private selectedFor(
    { levels, isWithoutModel = false }: ListingRules,
    scope: ListingScope,
  ): readonly Tool[] {
    const selected = this.catalog
      .build(...levels)
      .filter(({ subRun }) => !subRun || scope.limits.subRunDepth > 0);
    const offered = isWithoutModel
      ? selected
      : selected.filter(({ unlisted }) => unlisted !== true);
    return offered.filter((tool) => isPermitted(tool, scope));
  }

  /**
   * Returns the exclusions. The class of an entity is replaced by the declared ids of its tools,
   * since instances' tools know these only.
   */
  private excludedBy(levels: readonly ToolNarrowing[]): readonly ToolSelector[] {
    const exclude = levels.flatMap((level) => level.exclude ?? []);
    const ofClasses = this.catalog.entities.definitions.filter((definition) =>
      exclude.some((selector) => selectsClass(selector, definition)),
    );
    return [
      ...exclude,
      ...ofClasses.flatMap(({ tools }) => tools.map(({ template }) => template.spec.declaredId)),
    ];
  }

  /**
   * Returns the tools that are not withheld, and after them those that strategies add at the start.
   * None of them counts as injected.
   */
  private begun(
    { strategies, reserve, exclude, entities }: RunInjection,
    { limits, ...scope }: ListingScope,
    before: Pick<RunBeginning, 'records' | 'shown'> = { records: [] },
  ): Toolset {
    const rules = {
      ...scope,
      exclude,
      entities,
      instances: new RunInstances(),
      limits: { ...limits, injectedTools: Number.POSITIVE_INFINITY },
    };
    const base = this.beginWith(reserve.kept, entities.dispatcher);
    let toolset = base;
    for (const strategy of strategies) {
      const beginning = {
        ...before,
        run: scope.run,
        room: limits.injectedTools,
        toolset: toolset.specs,
        withheld: reserve.of(strategy),
      };
      const given = begin(strategy, beginning);
      if (given)
        toolset = applyPermitted(toolset, this.admit(given), rules, { step: 0, strategy }).toolset;
    }
    return toolset === base ? base : toolset.withInjected([]);
  }

  /** Returns the same toolset for the same tools, so that runs share what is known of it. */
  private beginWith(kept: readonly Tool[], dispatcher: Tool | undefined): Toolset {
    const known = this.begunWith.get(kept) ?? new WeakMap<object, Toolset>();
    const toolset =
      known.get(dispatcher ?? kept) ?? Toolset.of(dispatcher ? [...kept, dispatcher] : kept);
    this.begunWith.set(kept, known.set(dispatcher ?? kept, toolset));
    return toolset;
  }
}

/** The strategies and rules by which results add or remove the tools of a run. */
export interface RunInjection extends Pick<InjectionRules, 'exclude' | 'entities'> {
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly reserve: RunReserve;
}

const logger = new Logger('ToolInjection');

/** The actor for whom tools are listed, and the policies and limits that hold. */
export type ListingScope = Pick<InjectionRules, 'run' | 'actor' | 'policies' | 'limits'>;

/**
 * The selection and injection of a run or of its loop; neither can let in what the other keeps out.
 */
export type ToolNarrowing = Pick<LoopRequest, 'tools' | 'exclude' | 'injection'>;

/** The rules for a run's tools on every level, the same for every actor. */
export interface ListingRules extends Pick<InjectionRules, 'strictListing'> {
  readonly levels: readonly ToolNarrowing[];
  /** The strategies in the order in which they are evaluated. */
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly surface: EntitySurface;
  /** The tools that the client of the run declares. @default none */
  readonly declared?: readonly Tool[];
  /**
   * True where the application makes the calls and no model does, which unlisted tools are kept
   * from.
   */
  readonly isWithoutModel?: boolean;
}

/** One reason for which a run is offered a tool, or not, and may call it, or not. */
export interface ListingReason {
  /**
   * The part that has the reason: `source`, `selection`, `policy` (roles and tenants included),
   * `when`, `strategy` (phases, search and other strategies), `subRuns`, `entity`, `canCall` or
   * `quota`.
   */
  readonly by:
    | 'source'
    | 'selection'
    | 'policy'
    | 'when'
    | 'strategy'
    | 'subRuns'
    | 'entity'
    | 'canCall'
    | 'quota';
  readonly holds: boolean;
  readonly reason: string;
  /**
   * Policy's decision, for `policy`: about the tool where it is denied, else about a first call
   * without arguments.
   */
  readonly decision?: Decision;
}

/** The tools with which a run begins, and the rules by which results change them. */
export interface ListedTools {
  readonly toolset: Toolset;
  readonly injection: RunInjection;
}

/** The part of a run's tools that its sub-run may have. */
export interface Within {
  /** Excludes tools, injected ones too, as `exclude` does. */
  readonly isKeptOut: (spec: ToolSpec) => boolean;
  /** Tells whether a tool is selected and permitted in the sub-run. */
  readonly isLeft: (tool: Tool) => boolean;
}

/**
 * Lists the tools of a sub-run from those of its outer run and those that the outer run could
 * search for. Tools that a strategy withholds for another reason are left out, and so are those
 * that are bound to the outer run. Tools of entities keep their surface.
 */
export function listedWithin(
  outer: ListedTools,
  { isKeptOut, isLeft }: Within,
  scope: Omit<OfferRules, 'exclude'>,
): ListedTools {
  const { strategies, reserve } = outer.injection;
  const exclude = [...outer.injection.exclude, isKeptOut];
  const entities = outer.injection.entities.within({ ...scope, exclude });
  const searchable = strategies
    .filter(({ yields }) => yields === true)
    .flatMap((strategy) => reserve.of(strategy).all);
  const catalog = [...new Set([...outer.toolset.shown, ...searchable])];
  const shown = catalog.filter(
    (tool) => !isBound(tool) && !outer.toolset.withholds(tool.spec) && isLeft(tool),
  );
  const tools = entities.dispatcher ? [...shown, entities.dispatcher] : shown;
  return {
    injection: { exclude, entities, strategies, reserve: reserve.within(isLeft) },
    toolset: Toolset.of(tools, outer.toolset.behindSurfaces.filter(isLeft)).withholdingAs(
      outer.toolset,
    ),
  };
}

/** Tells whether a tool is bound to one run: a sub-run has its own. */
function isBound({ origin, surface }: Tool): boolean {
  return origin.source === 'toolloop' || surface?.kind === 'dispatcher';
}

/**
 * Passes the records of a sub-run to the strategies, if the process that held their state is gone.
 * The sub-run's tools are known, so tools that they propose are ignored.
 */
export function remindStrategies(
  { strategies, reserve }: Pick<RunInjection, 'strategies' | 'reserve'>,
  before: Pick<RunBeginning, 'run' | 'toolset' | 'room' | 'records' | 'shown'>,
): void {
  for (const strategy of strategies) begin(strategy, { ...before, withheld: reserve.of(strategy) });
}

/** Begins a strategy. One that fails adds nothing, and its tools stay withheld. */
function begin(
  strategy: ToolInjectionStrategy,
  beginning: RunBeginning,
): ToolInjection | undefined {
  try {
    return strategy.begin?.(beginning);
  } catch (error) {
    logger.error(
      `The injection strategy ${strategy.name} failed as the run ${beginning.run.runId} began.`,
      error,
    );
    return undefined;
  }
}

const yes = (): boolean => true;

/**
 * Policy's decision about a first call without arguments, in a run that has read nothing but the
 * user's words.
 */
function firstCallOf(
  tool: Pick<Tool, 'spec' | 'origin'>,
  { policies, actor }: ListingScope,
): Decision {
  const flow: InformationFlow = {
    integrity: 'trusted',
    confidentiality: 'private',
    outsideBits: 0,
    mayCommit: true,
    isCommitted: yes,
    isSaid: yes,
  };
  return decide(policies, {
    ...subjectOf(tool, actor),
    call: { args: {}, flow, spent: new SpendingLedger() },
  });
}

function toldBy(holds: boolean, who: string): Pick<ListingReason, 'holds' | 'reason'> {
  return { holds, reason: `${who} ${holds ? 'lets it in' : 'keeps it out'}.` };
}
