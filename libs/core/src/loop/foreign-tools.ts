import type { ToolCatalog } from '../catalog/tool.catalog.js';
import { contributedFindings, type ContributionRules } from '../discovery/contributed-tools.js';
import type { VouchedTools } from '../policy/vouched-tools.js';
import type { Finding } from '../protocol/errors.js';
import type { Tool } from '../protocol/tool.js';
import type { ToolInjection } from '../protocol/tool-injection.js';

/**
 * What of an injection may be applied at all. A tool that no catalog holds joins under what holds for every tool of a source: it is declared as they are, and it
 * does not take the id of one that the application has.
 */
export class ForeignTools {
  private readonly checked = new WeakMap<object, string | undefined>();

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly rules: ContributionRules,
    private readonly vouched: VouchedTools,
  ) {}

  /** Leaves out the others, and warns of them. Those of untrusted sources are what the application vouches for. */
  admit(injection: ToolInjection): ToolInjection {
    const { add = [], warnings = [] } = injection;
    const problems = add.flatMap((tool) => {
      const problem = this.problemWith(tool);
      return problem === undefined ? [] : [{ tool, problem }];
    });
    const taken = add.map((tool) => this.vouched.take(tool));
    if (problems.length === 0) return taken.some((tool, index) => tool !== add[index]) ? { ...injection, add: taken } : injection;
    const refused = new Set<Tool | undefined>(problems.map(({ tool }) => tool));
    const told = problems.map(({ problem }) => ({ code: 'injection_failed', message: problem }) as const);
    return { ...injection, add: taken.filter((_, index) => !refused.has(add[index])), warnings: [...warnings, ...told] };
  }

  private problemWith(tool: Tool): string | undefined {
    const name = JSON.stringify(tool.spec.id.slice(0, 64));
    if (!this.isWhatItSays(tool)) return `The tool ${name} of ${tool.origin.source} was not added: the application has another of its id.`;
    if (tool.origin.trusted) return undefined;
    const problem = this.declarationProblem(tool);
    return problem === undefined ? undefined : `The tool ${name} of ${tool.origin.source} was not added: ${problem}`;
  }

  /** A policy that names the application's tool must not let in another. */
  private isWhatItSays({ spec, origin }: Tool): boolean {
    return [spec.declaredId, spec.id].every((id) => {
      const known = this.catalog.originOf(id);
      return !known || (known.source === origin.source && known.trusted === origin.trusted);
    });
  }

  private declarationProblem(tool: Tool): string | undefined {
    if (this.checked.has(tool.spec)) return this.checked.get(tool.spec);
    const [finding] = this.findingsOf(tool);
    this.checked.set(tool.spec, finding?.problem);
    return finding?.problem;
  }

  private findingsOf(tool: Tool): readonly Finding[] {
    if (tool.entity)
      return [{ at: '', problem: 'It says that it belongs to an entity, which only the application can declare.', remedy: '' }];
    return contributedFindings(tool, this.rules);
  }
}
