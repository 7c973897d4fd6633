import { defineOptions } from '../../libs/core/src/findings/options.js';
import { TEXT } from '../../libs/core/src/findings/option-rules.js';
import { policyShapeFindings } from '../../libs/core/src/policy/policy-findings.js';
import { type Finding, pageOfFinding } from '../../libs/protocol/src/errors.js';
import { writtenFindings } from './findings.js';
import { lastCellsIn } from './table-cells.js';

const BLOCK = /<!-- findings -->[^]*?<!-- \/findings -->/;

/** Everything the sources can find at start, by the page that explains it, each problem once. */
export function findingsByPage(): ReadonlyMap<
  string,
  readonly Pick<Finding, 'problem' | 'remedy'>[]
> {
  const pages = new Map<string, Map<string, Pick<Finding, 'problem' | 'remedy'>>>();
  for (const { problem: written, remedy } of [...composedFindings(), ...writtenFindings()].filter(
    ({ problem }) => /\s/.test(problem),
  )) {
    const problem = /^(?:is(?! required$)|has|allows|never|cannot|the|items)\b/.test(written)
      ? `"…" ${written}.`
      : written;
    const page = pageOfFinding({ problem });
    const found = pages.get(page) ?? new Map<string, Pick<Finding, 'problem' | 'remedy'>>();
    if (!found.has(problem)) found.set(problem, { problem, remedy });
    pages.set(page, found);
  }
  return new Map(
    [...pages].map(([page, found]) => [
      page,
      [...found.values()].toSorted((one, other) => (one.problem < other.problem ? -1 : 1)),
    ]),
  );
}

/**
 * The commonest findings, which the sources put together from their parts: those about any option,
 * and about the form of a policy.
 */
function composedFindings(): readonly Pick<Finding, 'problem' | 'remedy'>[] {
  const options = defineOptions<{ name: string }>({ name: { ...TEXT, isNeeded: true } });
  return [
    ...options.findings({ nmae: 'shop' }, 'options'),
    ...options.findings({ name: 7 }, 'options'),
    ...policyShapeFindings({ allow: 'all', alow: [] }, 'policy'),
    ...policyShapeFindings({}, 'policy'),
  ].map(({ problem, remedy }) => ({ problem: anyName(problem), remedy: anyName(remedy) }));
}

function anyName(text: string): string {
  return text.replaceAll(/"\w+"|\b7\b/g, (found) => (found === '7' ? '…' : '"…"'));
}

/**
 * A page with the table of its findings as the sources have them now; the page as it is if it has
 * no place for one. A remedy that the sources compute is the one that people have written.
 */
export function withFindings(
  page: string,
  findings: readonly Pick<Finding, 'problem' | 'remedy'>[],
): string {
  const written = lastCellsIn(BLOCK.exec(page)?.[0] ?? '');
  const rows = findings.map(({ problem, remedy }) => {
    const cell = cellOf(problem);
    return `| ${cell} | ${remedy === '' ? (written.get(cell) ?? '') : cellOf(remedy)} |`;
  });
  const table = [
    '<!-- prettier-ignore -->',
    '| what is found | what to do |',
    '| --- | --- |',
    ...rows,
  ].join('\n');
  return page.replace(BLOCK, () => `<!-- findings -->\n\n${table}\n\n<!-- /findings -->`);
}

/** The problems of a page's table that have no remedy. */
export function withoutRemedy(page: string): readonly string[] {
  return [...lastCellsIn(BLOCK.exec(page)?.[0] ?? '')].flatMap(([problem, remedy]) =>
    remedy === '' ? [problem] : [],
  );
}

/** A text as a cell shows it, in Markdown as in Vue: both read more into it than it says. */
function cellOf(text: string): string {
  const parts = text.split(/(`[^`]*`)/);
  return parts
    .map((part) => (part.startsWith('`') ? part : escaped(part)))
    .join('')
    .replaceAll('|', '\\|');
}

function escaped(text: string): string {
  return text
    .replaceAll('<', '&lt;')
    .replaceAll('{{', '{&#8203;{')
    .replaceAll(/[*_[\]]/g, '\\$&');
}
