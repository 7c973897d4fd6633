import type { LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import type { Finding } from '../protocol/errors.js';
import { TOOL_EFFECTS, type ToolInputCodec } from '../protocol/tool.js';
import { subsetProblems } from '../schema/schema.subset.js';

/** What every tool says of itself, whoever declares it. */
export function basicFindings(
  at: string,
  options: { readonly effect?: LlmToolOptions['effect'] | undefined; readonly description?: string },
): Finding[] {
  const findings: Finding[] = [];
  if (!options.description?.trim())
    findings.push({ at, problem: 'The tool has no description.', remedy: 'Say in @LlmTool({ description }) what it does.' });
  if (!TOOL_EFFECTS.some((effect) => effect === options.effect))
    findings.push({
      at,
      problem: options.effect === undefined ? 'The tool declares no effect.' : `"${options.effect}" is not an effect.`,
      remedy: `Add @LlmTool({ effect }): one of ${TOOL_EFFECTS.join(', ')}.`,
    });
  return findings;
}

export function optionFindings(
  at: string,
  { timeoutMs = 1, allowReserved }: Pick<LlmToolOptions, 'timeoutMs' | 'allowReserved'>,
): Finding[] {
  const findings: Finding[] = [];
  if (!(timeoutMs > 0))
    findings.push({ at, problem: `Its timeoutMs is ${timeoutMs}.`, remedy: 'Give milliseconds, more than 0, or leave it out.' });
  if (allowReserved && !allowReserved.reason.trim())
    findings.push({
      at,
      problem: 'It allows reserved arguments, but gives no reason.',
      remedy: 'Say why in @LlmTool({ allowReserved: { arguments, reason } }): the reason is kept for later reviews.',
    });
  return findings;
}

export function schemaFindings(at: string, input: ToolInputCodec): Finding[] {
  return subsetProblems(input.schema).map(({ pointer, problem }) => ({
    at,
    problem: `The input schema leaves the supported subset at "${pointer}": ${problem}`,
    remedy: 'Use types, enums, bounds, patterns, formats, nested objects and arrays only.',
  }));
}

export function parametersWithoutTool(at: string): Finding {
  return {
    at,
    problem: 'Its parameters are decorated, but the method is not.',
    remedy: 'Add @LlmTool({ description, effect, output }) to the method.',
  };
}

export function saidTwice(at: string): Finding {
  return {
    at,
    problem: 'The tool says twice which data may leave it.',
    remedy: 'Keep `output` for classes, or `reveal` for everything else.',
  };
}

export function noRedaction(at: string): Finding {
  const remedy =
    'Add @LlmTool({ output: SomeClass }) whose @Expose() properties may be shown, or reveal: "all" | [fields]; reveal: [] for void.';
  return { at, problem: 'The tool does not say which data may leave it.', remedy };
}
