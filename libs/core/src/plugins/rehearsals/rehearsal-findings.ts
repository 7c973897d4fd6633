import type { Finding } from '@toolloop/protocol';
import type { Tool } from '../../contracts/tool.js';

/** Returns what keeps tools from being rehearsed that say they can be. */
export function rehearsalFindings(
  tools: readonly RehearsedTool[],
  hasTransactions: boolean,
): Finding[] {
  return tools.flatMap(({ at, tool }) => {
    if (tool.rehearse === undefined)
      return tool.rowsBefore
        ? [{ at, problem: 'It has rowsBefore, and no rehearsal makes its calls.', remedy: SAY_IT }]
        : [];
    const problem = obstacleOf(tool, hasTransactions);
    return problem === undefined
      ? []
      : [{ at, problem: `It says \`rehearse\`, and ${problem}.`, remedy: REMEDY }];
  });
}

/** A tool that says it can be rehearsed, and where it is declared. */
export interface RehearsedTool {
  readonly at: string;
  readonly tool: Pick<Tool, 'spec' | 'rehearse' | 'rowsBefore' | 'directive' | 'questions'>;
}

const SAY_IT = "Add rehearse: 'transaction', or leave rowsBefore out.";
const REMEDY =
  'Leave `rehearse` out: a rehearsal then previews its calls. It is for tools that change rows of the database of DurableModule by `context.transaction`, and do nothing else.';

function obstacleOf(
  { spec, directive, questions }: RehearsedTool['tool'],
  hasTransactions: boolean,
): string | undefined {
  if (spec.effect !== 'state_change') return `its effect is ${spec.effect}`;
  if (spec.labels.egress) return 'it lets data out, which no rollback takes back';
  if (directive) return 'it requests a directive, which is performed later';
  if (questions) return 'it asks questions before its calls, which no one answers in a rehearsal';
  return hasTransactions
    ? undefined
    : 'the application has no database with transactions for calls';
}
