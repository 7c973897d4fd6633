import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { ToolInjection } from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { Logger } from '../../findings/logger.js';
import {
  checkContribution,
  type Contribution,
  type ContributionRules,
  copyContribution,
  shownId,
} from '../../tools/discovery/contributed-tools.js';
import { VouchedTools } from '../sources/vouched-tools.js';

/**
 * Checks the tools of an injection that no catalog holds. They are declared like the tools of a
 * source, and do not take the id of a tool of the application.
 */
export class ForeignTools {
  private readonly known = new WeakMap<Tool, Contribution>();
  /** The same by the declaration, which a strategy may put into a new tool for every result. */
  private readonly declared = new WeakMap<object, Contribution>();
  private readonly logger = new Logger('ToolLoop');

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly rules: ContributionRules,
    private readonly vouched: VouchedTools,
  ) {}

  /**
   * Leaves out the others, and warns of them. Those of untrusted sources are what the application
   * vouches for.
   */
  admit(injection: ToolInjection): ToolInjection {
    const { add: given = [], warnings = [] } = injection;
    const read = given.map((tool) => this.readOnce(tool));
    const problems = read.map((one) => this.problemWith(one));
    const add = read.flatMap(({ tool }, index) =>
      problems[index] === undefined ? this.vouched.take(tool) : [],
    );
    if (add.length === given.length)
      return add.some((tool, index) => tool !== given[index]) ? { ...injection, add } : injection;
    const told = problems.flatMap((message) =>
      message === undefined ? [] : [{ code: 'injection_failed', message } as const],
    );
    return { ...injection, add, warnings: [...warnings, ...told] };
  }

  private readOnce(tool: Tool): Contribution {
    const known = this.known.get(tool);
    if (known) return known;
    const read = this.readDeclared(tool);
    this.known.set(tool, read);
    return read;
  }

  private readDeclared(tool: Tool): Contribution {
    const known = this.declared.get(tool.spec);
    if (known && !tool.origin.trusted)
      return { ...known, tool: { ...tool, spec: known.tool.spec, input: known.tool.input } };
    const read = checkContribution(copyContribution(tool, this.rules), this.rules);
    for (const { at, problem, remedy } of read.notes)
      this.logger.warn(`${at}: ${problem} ${remedy}`);
    this.declared.set(tool.spec, read);
    return read;
  }

  private problemWith({ tool, problems: [finding] }: Contribution): string | undefined {
    const name = JSON.stringify(shownId(tool.spec.id));
    if (!this.isWhatItSays(tool))
      return `The tool ${name} of ${tool.origin.source} was not added: the application has another of its id.`;
    if (this.catalog.isLookalike(tool.spec.id))
      return `The tool ${name} of ${tool.origin.source} was not added: its id differs only in case from that of another tool.`;
    if (tool.origin.trusted || !finding) return undefined;
    return `The tool ${name} of ${tool.origin.source} was not added: ${finding.problem}`;
  }

  /** A policy that names the application's tool must not let in another. */
  private isWhatItSays({ spec, origin }: Tool): boolean {
    return [spec.declaredId, spec.id].every((id) => {
      const known = this.catalog.originOf(id) ?? this.catalog.announced.ownerOf(id);
      return !known || (known.source === origin.source && known.trusted === origin.trusted);
    });
  }
}
