import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Finding, ToolOrigin } from '@toolloop/protocol';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import { type CatalogEntry, isUnder } from '../../catalog/tool-selection.js';
import type { QuarantinedTool } from '../../contracts/source.js';
import type { Tool } from '../../contracts/tool.js';
import {
  type Contribution,
  isRefused,
  isTool,
  placeOf,
  shownId,
} from '../../tools/discovery/contributed-tools.js';
import { noToolFinding } from './source-tool.js';
import { Logger } from '../../findings/logger.js';
import type { LoopSettings } from '../../run/loop-settings.js';
import { canonicalDeclaration } from '../../schema/canonical-json.js';

/**
 * Takes the answers of one source into the catalog: what is new, what has changed and what is gone.
 */
export class SourceAdmission {
  private admitted: ReadonlyMap<string, AdmittedTool> = new Map();

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly source: SourceIdentity,
  ) {}

  /** The declared ids of its tools in the catalog. */
  get ids(): readonly string[] {
    return [...this.admitted.keys()];
  }

  /**
   * Adopts the tools of a source that is a part of the application, whose findings are those of the
   * application. The catalog is filled with them afterwards.
   */
  adopt(given: readonly unknown[]): SourceBeginning {
    const { origin } = this.source;
    const none = given.flatMap((one) => (isTool(one) ? [] : [noToolFinding(one, origin)]));
    const read = given
      .filter(isTool)
      .map((tool) => this.settings.checkOfSource(this.settings.copy(withOrigin(tool, origin))));
    const made = read.map(
      (contribution) => new AdmittedTool(contribution, definitionOf(contribution.tool)),
    );
    this.admitted = new Map(made.map((one) => [one.tool.spec.declaredId, one]));
    return {
      entries: made.map(({ at, tool }) => ({ at, tool })),
      findings: [...none, ...read.flatMap(({ problems }) => problems)],
      warnings: made.flatMap(({ notes }) => notes),
    };
  }

  /**
   * Takes an answer in. Others have their turns while it is read, since it may be large; then the
   * catalog changes at once.
   */
  async admit(given: readonly unknown[]): Promise<Admission> {
    const answer = new SourceAnswer(this.catalog, this.settings, this.source, this.admitted);
    let count = 0;
    for (const one of given.slice(0, this.source.most)) {
      if (answer.values > MOST_VALUES) break;
      answer.read(one);
      count += 1;
      if (count % A_FEW === 0) await nextTurn();
    }
    return this.apply(answer, given.length - count);
  }

  private apply({ kept, fresh, refused, findings }: SourceAnswer, leftOut: number): Admission {
    const { source } = this.source.origin;
    const remove = [...this.admitted].flatMap(([id, { tool }]) => (kept.has(id) ? [] : [tool]));
    const { isPinned } = this.source;
    const add = [...fresh.values()].map(({ at, tool }) => ({
      at,
      tool: this.settings.takeIn(tool, { isPinned }),
    }));
    const collided = this.catalog.update({ source, remove, add });
    const added = [...fresh].filter(([id]) => !collided.has(id));
    this.admitted = new Map([...kept, ...added]);
    const notes = [...this.admitted.values()].flatMap((one) => one.notes);
    return {
      added: added.map(([id]) => id),
      removed: remove.map(({ spec }) => spec.declaredId),
      quarantined: [
        ...refused,
        ...[...collided].map(([id, { problem }]) => ({ id: shownId(id), reason: problem })),
      ],
      leftOut,
      findings: [
        ...findings,
        ...collided.values(),
        ...notes,
        ...(leftOut > 0 ? [leftOutFinding(source, leftOut)] : []),
      ],
    };
  }
}

/** The name and the limits of a source, read once. */
export interface SourceIdentity {
  readonly origin: ToolOrigin;
  readonly prefix: string | undefined;
  /** The most tools that are looked at. */
  readonly most: number;
  /** True where the application has pinned the definitions of its tools. */
  readonly isPinned: boolean;
}

/** The result of one answer of a source. */
export interface Admission {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly quarantined: readonly QuarantinedTool[];
  readonly leftOut: number;
  /** Why tools are in quarantine, and what of the others is not applied. */
  readonly findings: readonly Finding[];
}

/** The tools of the application's own sources that answered in time, and their findings. */
export interface SourceBeginning {
  readonly entries: readonly CatalogEntry[];
  readonly findings: readonly Finding[];
  /** Findings that keep nothing from starting. */
  readonly warnings: readonly Finding[];
}

const logger = new Logger('ToolSources');

/**
 * The most values in the schemas of all tools of a source: to read and compile that many takes a
 * few seconds.
 */
const MOST_VALUES = 20_000;
/** The tools that are read before others have their turn. */
const A_FEW = 8;

/**
 * A tool of a source in the catalog. An answer with an equal definition replaces what is called,
 * and not the tool.
 */
class AdmittedTool {
  readonly tool: Tool;
  readonly at: string;
  readonly notes: readonly Finding[];

  constructor(
    { at, tool, notes }: Contribution,
    /** All that a model or a policy can tell of it. */
    readonly definition: string,
  ) {
    this.latest = tool;
    this.at = at;
    this.notes = notes;
    const { spec, input, canCall, preflight, preview } = tool;
    this.tool = {
      ...tool,
      spec: Object.freeze({ ...spec }),
      input: { ...input }, // its identity in the catalog
      invoke: (args, context) => this.latest.invoke(args, context),
      ...(canCall && { canCall: (run) => this.latest.canCall?.(run) ?? false }),
      ...(preflight && {
        preflight: (args, context) => this.latest.preflight?.(args, context) ?? false,
      }),
      ...(preview && { preview: (args, context) => this.latest.preview?.(args, context) }),
    };
  }

  private latest: Tool;

  renew(latest: Tool): void {
    this.latest = latest;
  }
}

/** One answer of a source while it is read, tool by tool. */
class SourceAnswer {
  readonly kept = new Map<string, AdmittedTool>();
  readonly fresh = new Map<string, AdmittedTool>();
  readonly refused: QuarantinedTool[] = [];
  readonly findings: Finding[] = [];
  /** The values in the schemas so far. */
  values = 0;

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly source: SourceIdentity,
    private readonly admitted: ReadonlyMap<string, AdmittedTool>,
  ) {}

  /** Reads what may be anything. */
  read(given: unknown): void {
    const { origin } = this.source;
    try {
      if (isTool(given)) this.readTool(withOrigin(given, origin));
      else if (isRefused(given))
        this.refuse(given.id, [{ at: `${origin.source}: ${shownId(given.id)}`, ...given.refused }]);
      else this.refuse('', [noToolFinding(given, origin)]);
    } catch (error) {
      this.refuse('', [{ ...UNREADABLE, at: origin.source }]);
      logger.error(`A tool of ${origin.source} could not be read.`, error);
    }
  }

  private readTool(tool: Tool): void {
    const id = tool.spec.declaredId;
    const misplaced = this.misplacedFinding(tool);
    if (misplaced) return this.refuse(id, [misplaced]);
    const copy = this.settings.copy(tool);
    this.values += copy.values;
    if (copy.problems.length > 0) return this.refuse(id, copy.problems);
    const definition = definitionOf(copy.tool);
    const known = this.admitted.get(id);
    const same = known?.definition === definition ? known : undefined;
    const read = same
      ? { at: same.at, tool: same.tool, problems: [], notes: same.notes }
      : this.settings.checkOfSource(copy);
    if (read.problems.length > 0) return this.refuse(id, read.problems);
    const schemaHash = this.settings.hashOtherwisePinned(copy.tool);
    if (schemaHash !== undefined)
      return this.refuse(id, [pinFinding(read.at, schemaHash)], schemaHash);
    same?.renew(copy.tool);
    if (same) this.kept.set(id, same);
    else this.fresh.set(id, new AdmittedTool(read, definition));
  }

  private refuse(id: string, problems: readonly Finding[], schemaHash?: string): void {
    const reason = problems.map(({ problem }) => problem).join(' ');
    this.refused.push({ id: shownId(id), reason, ...(schemaHash !== undefined && { schemaHash }) });
    this.findings.push(...problems);
  }

  private misplacedFinding(tool: Tool): Finding | undefined {
    const { declaredId } = tool.spec;
    const problem = this.idProblem(declaredId);
    if (problem !== undefined) return { at: placeOf(tool), problem, remedy: RENAME };
    return isBound(tool) && !this.admitted.has(declaredId)
      ? { at: placeOf(tool), ...BOUND }
      : undefined;
  }

  private idProblem(id: string): string | undefined {
    const { origin, prefix } = this.source;
    if (this.kept.has(id) || this.fresh.has(id)) return 'Its source gives two tools of this id.';
    if (prefix !== undefined && !isUnder(prefix, id))
      return `Its id does not begin with the prefix that its source announces, "${prefix}__".`;
    const owner = this.catalog.announced.ownerOf(id);
    return owner && owner !== origin
      ? `Its id begins with the prefix of the source "${owner.source}".`
      : undefined;
  }
}

/**
 * Tells whether a tool is one of those that are known when the application has started, or not at
 * all.
 */
function isBound({ directive, subRun, surface, rehydration, entity }: Tool): boolean {
  return [directive, subRun, surface, rehydration, entity].some((part) => part !== undefined);
}

const RENAME = 'Have its source name it otherwise; until then the tool is left out.';
const UNREADABLE = {
  problem: 'A tool of it could not be read; the log has the cause.',
  remedy: 'Correct what its tools() returns.',
} as const;
const BOUND = {
  problem:
    'It is a directive, a sub-run or a tool of an entity, which only the application can declare.',
  remedy:
    'Declare it in the application, or in a trusted source without a prefix that answers when the application starts.',
} as const;

function pinFinding(at: string, schemaHash: string): Finding {
  return {
    at,
    problem: `The policy pins another declaration of it; the hash of this one is ${schemaHash}.`,
    remedy:
      'Read its description and its schemas, and pin this hash in the policy, or have its source return to what was pinned.',
  };
}

function leftOutFinding(at: string, count: number): Finding {
  const remedy =
    'Have it offer fewer or smaller ones, or raise ToolLoopModule.forRoot({ sources: { tools } }).';
  return {
    at,
    problem: `It has more tools than are taken: ${count} of them are left out.`,
    remedy,
  };
}

/** A tool is never more trusted than its source, and has its name. */
function withOrigin(tool: Tool, { source, trusted }: ToolOrigin): Tool {
  return { ...tool, origin: { source, trusted: trusted && tool.origin.trusted } };
}

/**
 * Writes all of a tool that a model or a policy can tell, to compare it with another one. Of its
 * functions only which there are: they may be new with every answer.
 */
function definitionOf({
  spec: { schemaHash: _hash, ...spec },
  origin,
  input,
  output: _read,
  ...rest
}: Tool): string {
  const settings = Object.entries(rest).map(([name, value]: [string, unknown]) => ({
    [name]: typeof value === 'function' ? true : value,
  }));
  return canonicalDeclaration({ spec, origin, schema: input.schema, settings });
}
