import { type ReactNode, useMemo, useState } from 'react';
import type { EvalReport, EvalRun } from '@toolloop/protocol';
import { Icon } from '../parts/icon.js';
import { useConsole } from '../shell/console-context.js';
import type { Words } from '../words/words.js';

/** The runs of a case that passed, of how many. */
interface Passed {
  readonly passed: number;
  readonly runs: number;
}

/** A case under a variant, with what it reached at the other time. */
interface CaseCell extends Passed {
  readonly name: string;
  readonly variant: string;
  /** Absent where it was not run then. */
  readonly before?: Passed;
}

interface CaseRow {
  readonly name: string;
  readonly cells: readonly CaseCell[];
}

interface CaseTableProps {
  readonly report: EvalReport;
  readonly before: EvalReport | undefined;
}

const FILTERS = ['all', 'failed', 'changed'] as const;
type Filter = (typeof FILTERS)[number];
const MOST_CASES = 200;

/** Each case under each variant; a cell opens its runs. */
export function CaseTable({ report, before }: CaseTableProps): ReactNode {
  const { t } = useConsole().words;
  const [filter, setFilter] = useState<Filter>('all');
  const [open, setOpen] = useState<CaseCell>();
  const cases = useMemo(() => rowsOf(report, before), [report, before]);
  const shown = cases.filter(
    ({ cells }) => filter === 'all' || cells.some(filter === 'failed' ? hasFailed : isChanged),
  );
  return (
    <>
      <div className="heading">
        <h3>{t('evals.cases', { n: cases.length })}</h3>
        <CaseFilter filter={filter} isCompared={before !== undefined} onChoose={setFilter} />
      </div>
      {shown.length === 0 && <p className="muted">{t('evals.none')}</p>}
      {shown.length > 0 && (
        <div
          className="table-frame"
          tabIndex={0}
          role="group"
          aria-label={t('evals.cases', { n: cases.length })}
        >
          <table className="cases">
            <Variants variants={report.variants} />
            <tbody>
              {shown.slice(0, MOST_CASES).map((row) => (
                <Row key={row.name} row={row} open={open} onOpen={setOpen} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.length > MOST_CASES && (
        <p className="muted">{t('result.more', { n: shown.length - MOST_CASES })}</p>
      )}
      {open && (
        <OpenCell
          key={`${open.name} ${open.variant}`}
          cell={open}
          report={report}
          before={before}
        />
      )}
    </>
  );
}

interface CaseFilterProps {
  readonly filter: Filter;
  /** True where there is another time from which a case may differ. */
  readonly isCompared: boolean;
  readonly onChoose: (filter: Filter) => void;
}

function CaseFilter({ filter, isCompared, onChoose }: CaseFilterProps): ReactNode {
  const { t } = useConsole().words;
  return (
    <div className="filters" role="group" aria-label={t('evals.filter')}>
      {FILTERS.filter((one) => one !== 'changed' || isCompared).map((one) => (
        <button
          key={one}
          type="button"
          className="filter"
          aria-pressed={filter === one}
          onClick={() => onChoose(one)}
        >
          {t(`evals.${one}`)}
        </button>
      ))}
    </div>
  );
}

/** The heads of the columns. */
function Variants({ variants }: Pick<EvalReport, 'variants'>): ReactNode {
  const { t } = useConsole().words;
  return (
    <thead>
      <tr>
        <th scope="col">{t('evals.case')}</th>
        {variants.map(({ name }) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

interface RowProps {
  readonly row: CaseRow;
  readonly open: CaseCell | undefined;
  readonly onOpen: (cell: CaseCell | undefined) => void;
}

function Row({ row: { name, cells }, open, onOpen }: RowProps): ReactNode {
  return (
    <tr>
      <th scope="row">{name}</th>
      {cells.map((cell) => (
        <td key={cell.variant}>
          <Cell
            cell={cell}
            isOpen={cell === open}
            onOpen={() => onOpen(cell === open ? undefined : cell)}
          />
        </td>
      ))}
    </tr>
  );
}

/**
 * The cases of a report under each of its variants, beside the same ones of another by their names.
 */
function rowsOf(report: EvalReport, before?: EvalReport): readonly CaseRow[] {
  const [now, then] = [countsOf(report), before && countsOf(before)];
  const names = [...new Set(report.runs.map((run) => run.case))];
  return names.map((name) => ({
    name,
    cells: report.variants.map(({ name: variant }): CaseCell => {
      const key = keyOf(name, variant);
      const was = then?.get(key);
      return {
        name,
        variant,
        passed: now.get(key)?.passed ?? 0,
        runs: now.get(key)?.runs ?? 0,
        ...(was && { before: was }),
      };
    }),
  }));
}

function keyOf(name: string, variant: string): string {
  return JSON.stringify([name, variant]);
}

function countsOf({ runs }: EvalReport): ReadonlyMap<string, Passed> {
  const counts = new Map<string, Passed>();
  for (const run of runs) {
    const key = keyOf(run.case, run.variant);
    const { passed, runs: made } = counts.get(key) ?? { passed: 0, runs: 0 };
    counts.set(key, { passed: passed + (run.passed ? 1 : 0), runs: made + 1 });
  }
  return counts;
}

function hasFailed({ passed, runs }: CaseCell): boolean {
  return passed < runs;
}

/** Tells whether another share of runs passed at the other time. */
function isChanged({ passed, runs, before }: CaseCell): boolean {
  return before !== undefined && runs > 0 && passed * before.runs !== before.passed * runs;
}

interface CellProps {
  readonly cell: CaseCell;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
}

function Cell({ cell, isOpen, onOpen }: CellProps): ReactNode {
  const { t } = useConsole().words;
  const { passed, runs, before } = cell;
  if (runs === 0) return <span className="muted">–</span>;
  const mood = passed === runs ? 'good' : passed === 0 ? 'danger' : 'caution';
  const said = ({ passed: n, runs: of }: Passed): string =>
    of === 1
      ? t(n === 1 ? 'evals.passed' : 'evals.notPassed')
      : t('evals.passedOf', { passed: n, runs: of });
  return (
    <button type="button" className={`case-cell ${mood}`} aria-expanded={isOpen} onClick={onOpen}>
      <Icon name={passed === runs ? 'check' : 'cross'} size={14} /> {said(cell)}
      {before && isChanged(cell) && <small>{t('evals.was', { before: said(before) })}</small>}
    </button>
  );
}

/** The runs of a case under a variant, beside those of the other time. */
function OpenCell({
  cell: { name, variant },
  report,
  before,
}: CaseTableProps & { readonly cell: CaseCell }): ReactNode {
  const { t } = useConsole().words;
  const runsIn = ({ runs }: EvalReport): readonly EvalRun[] =>
    runs.filter((run) => run.case === name && run.variant === variant);
  const sides = [
    { title: t('evals.now'), runs: runsIn(report) },
    ...(before ? [{ title: t('evals.before'), runs: runsIn(before) }] : []),
  ];
  return (
    <section
      className="case-runs"
      aria-label={`${name}, ${variant}`}
      ref={(element) => element?.scrollIntoView({ block: 'nearest' })}
    >
      <h3>
        {name} <span className="muted">· {variant}</span>
      </h3>
      <div className="sides">
        {sides.map(({ title, runs }) => (
          <div key={title} className="side">
            {before && <h4>{title}</h4>}
            {runs.length === 0 && <p className="muted">{t('evals.notRun')}</p>}
            {runs.map((run) => (
              <CaseRun key={`${run.repeat} ${run.runId}`} run={run} isAlone={runs.length === 1} />
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}

function CaseRun({
  run,
  isAlone,
}: {
  readonly run: EvalRun;
  readonly isAlone: boolean;
}): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const { passed, repeat, scores, text, calls, error } = run;
  return (
    <article className={`call ${passed ? 'done' : 'failed'}`}>
      <header>
        <span className="call-state">
          <Icon name={passed ? 'check' : 'cross'} size={16} />
        </span>
        <div className="call-words">
          <strong>
            {isAlone
              ? t(passed ? 'evals.passed' : 'evals.notPassed')
              : t('evals.repeat', { n: repeat })}
          </strong>
          <p className="call-line">{listFacts(run, words).join(' · ')}</p>
        </div>
      </header>
      <Scores scores={scores} />
      {error !== undefined && <p className="problem">{error}</p>}
      {calls.length > 0 && <MadeCalls calls={calls} />}
      {text !== '' && (
        <p className="text" dir="auto">
          {text}
        </p>
      )}
    </article>
  );
}

/** Lists how a run ended, and its price in time, tokens, money and questions to people. */
function listFacts(
  { finishReason, durationMs, usage, approvals }: EvalRun,
  words: Words,
): readonly string[] {
  const { t } = words;
  return [
    t(`finish.${finishReason}`),
    words.duration(durationMs),
    t('run.tokens', { n: usage.inputTokens + usage.outputTokens }),
    ...(usage.costUsd === undefined ? [] : [words.money(usage.costUsd, 'USD')]),
    ...(approvals > 0 ? [t('evals.asked', { n: approvals })] : []),
  ];
}

function Scores({ scores }: Pick<EvalRun, 'scores'>): ReactNode {
  return (
    <ul className="scores">
      {scores.map(({ name, passed, why }) => (
        <li key={name} className={passed ? 'good' : 'danger'}>
          <Icon name={passed ? 'check' : 'cross'} size={14} />
          <span>
            <strong>{name}</strong> {why}
          </span>
        </li>
      ))}
    </ul>
  );
}

function MadeCalls({ calls }: Pick<EvalRun, 'calls'>): ReactNode {
  const { t } = useConsole().words;
  return (
    <ol className="made-calls">
      {calls.map(({ tool, args, status, code }, index) => (
        <li key={index}>
          <code className="code">
            {tool} {JSON.stringify(args)}
          </code>{' '}
          <span className="muted small">{code ?? t(`outcome.${status}`)}</span>
        </li>
      ))}
    </ol>
  );
}
