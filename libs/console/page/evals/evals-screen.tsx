import { type ReactNode, useCallback } from 'react';
import type { EvalReport, VariantSummary } from '@toolloop/protocol';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Notice } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { go, hrefOf } from '../shell/route.js';
import { askOwn } from '../shell/session.js';
import type { Words } from '../words/words.js';
import { CaseTable } from './case-table.js';

/** A result in the list: what its variants reached. */
interface ListedResult {
  readonly id: string;
  readonly at: string;
  readonly name: string;
  readonly variants: readonly VariantSummary[];
}

/** A result with its runs. */
interface Result {
  readonly id: string;
  readonly at: string;
  readonly report: EvalReport;
}

function isList(value: unknown): value is readonly ListedResult[] {
  return Array.isArray(value);
}

function isResult(value: unknown): value is Result {
  return typeof value === 'object' && value !== null && 'report' in value;
}

interface EvalsScreenProps {
  readonly selected: string | undefined;
  /** The earlier result beside which it is shown. */
  readonly beside: string | undefined;
}

/**
 * The results of evaluations: each case under each variant, alone or beside those of another time.
 */
function EvalsScreen({ selected, beside }: EvalsScreenProps): ReactNode {
  const { place, session, words } = useConsole();
  const { t } = words;
  const load = useCallback(
    () => askOwn(place, session, { path: 'evaluations', isAnswer: isList }),
    [place, session],
  );
  const { value, error, reload } = useLoaded(load);
  const chosen = value?.find(({ id }) => id === selected) ?? value?.[0];
  return (
    <div className="evals split">
      <section className="list" aria-label={t('nav.evals')}>
        <header className="bar-top">
          <h1>{t('nav.evals')}</h1>
        </header>
        {error && <Failed error={error} retry={reload} />}
        {!value && !error && <Loading rows={5} />}
        {value?.length === 0 && (
          <Notice icon="evals" title={t('evals.empty')}>
            {t('evals.emptyLead')}{' '}
            <code className="code">npx toolloop eval evals/cases.json --out …</code>
          </Notice>
        )}
        <ul className="rows">
          {(value ?? []).map((result) => (
            <ResultRow key={result.id} result={result} isChosen={result === chosen} />
          ))}
        </ul>
      </section>
      {value && chosen && (
        <ResultItem key={`${chosen.id} ${beside}`} chosen={chosen} beside={beside} all={value} />
      )}
    </div>
  );
}
export default EvalsScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

interface ResultRowProps {
  readonly result: ListedResult;
  readonly isChosen: boolean;
}

function ResultRow({ result: { id, at, name, variants }, isChosen }: ResultRowProps): ReactNode {
  const { words } = useConsole();
  const passed = variants.reduce((sum, one) => sum + one.passed, 0);
  const runs = variants.reduce((sum, one) => sum + one.runs, 0);
  return (
    <li>
      <a href={hrefOf('evals', id)} className="row" aria-current={isChosen ? 'true' : undefined}>
        <span
          className={`row-kind ${passed === runs ? 'effect-read_only' : 'effect-external_side_effect'}`}
        >
          <Icon name={passed === runs ? 'check' : 'alert'} size={17} />
        </span>
        <span className="row-words">
          <strong>{name}</strong>
          <small className="muted">
            {words.t('evals.passedOf', { passed, runs })} · {id}
          </small>
        </span>
        <time className="muted small" dateTime={at} title={words.time(at)}>
          {words.ago(at)}
        </time>
      </a>
    </li>
  );
}

interface ResultItemProps {
  readonly chosen: ListedResult;
  readonly beside: string | undefined;
  readonly all: readonly ListedResult[];
}

function ResultItem({ chosen, beside, all }: ResultItemProps): ReactNode {
  const { place, session, words } = useConsole();
  const { t } = words;
  const load = useCallback(() => {
    const get = (id: string): Promise<Result> =>
      askOwn(place, session, { path: `evaluations/${encodeURIComponent(id)}`, isAnswer: isResult });
    return Promise.all([get(chosen.id), beside === undefined ? undefined : get(beside)]);
  }, [place, session, chosen.id, beside]);
  const { value, error, reload } = useLoaded(load);
  const others = all.filter(({ id }) => id !== chosen.id);
  return (
    <section className="item" aria-label={chosen.name}>
      <header className="heading">
        <div>
          <h2>{chosen.name}</h2>
          <ul className="chips">
            <li className="chip code">{chosen.id}</li>
            <li className="chip">{words.time(chosen.at)}</li>
          </ul>
        </div>
        {others.length > 0 && (
          <label className="field">
            <span>{t('evals.beside')}</span>
            <select
              value={beside ?? ''}
              onChange={({ target }) =>
                target.value === '' ? go('evals', chosen.id) : go('evals', chosen.id, target.value)
              }
            >
              <option value="">{t('evals.alone')}</option>
              {others.map(({ id, name, at }) => (
                <option key={id} value={id}>{`${name} · ${id} · ${words.ago(at)}`}</option>
              ))}
            </select>
          </label>
        )}
      </header>
      {error && <Failed error={error} retry={reload} />}
      {!value && !error && <Loading rows={6} />}
      {value && <Variants report={value[0].report} before={value[1]?.report} />}
      {value && <CaseTable report={value[0].report} before={value[1]?.report} />}
    </section>
  );
}

/** A figure of a variant, how it is written, and which way is better. */
interface Figure {
  readonly title: string;
  readonly of: (variant: VariantSummary) => number | undefined;
  readonly written: (value: number) => string;
  readonly isBetter: (now: number, before: number) => boolean;
}

function isMore(now: number, before: number): boolean {
  return now > before;
}

function isLess(now: number, before: number): boolean {
  return now < before;
}

function figuresIn(words: Words): readonly Figure[] {
  const { t } = words;
  const number = (value: number): string => words.number(value);
  return [
    {
      title: t('evals.rate'),
      of: (one) => one.passRate,
      written: (value) => words.percent(value),
      isBetter: isMore,
    },
    {
      title: t('usage.cost'),
      of: (one) => one.costUsd,
      written: (value) => words.money(value, 'USD'),
      isBetter: isLess,
    },
    { title: t('usage.tokens'), of: (one) => one.tokens, written: number, isBetter: isLess },
    { title: t('evals.approvals'), of: (one) => one.approvals, written: number, isBetter: isLess },
    {
      title: t('evals.median'),
      of: (one) => one.medianMs,
      written: (value) => words.duration(value),
      isBetter: isLess,
    },
  ];
}

interface VariantsProps {
  readonly report: EvalReport;
  readonly before: EvalReport | undefined;
}

/** What each variant reached and used, beside the same at the other time. */
function Variants({ report, before }: VariantsProps): ReactNode {
  const { words } = useConsole();
  const figures = figuresIn(words);
  return (
    <div className="table-frame" tabIndex={0} role="group" aria-label={words.t('evals.variants')}>
      <table>
        <thead>
          <tr>
            <th scope="col">{words.t('evals.variant')}</th>
            {figures.map(({ title }) => (
              <th key={title} scope="col" className="figure">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {report.variants.map((variant) => (
            <tr key={variant.name}>
              <th scope="row">{variant.name}</th>
              {figures.map((figure) => (
                <td key={figure.title} className="figure">
                  <FigureCell
                    figure={figure}
                    now={variant}
                    before={before?.variants.find(({ name }) => name === variant.name)}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface FigureCellProps {
  readonly figure: Figure;
  readonly now: VariantSummary;
  readonly before: VariantSummary | undefined;
}

function FigureCell({
  figure: { of, written, isBetter },
  now,
  before,
}: FigureCellProps): ReactNode {
  const { t } = useConsole().words;
  const value = of(now);
  const was = before && of(before);
  if (value === undefined) return <span className="muted">–</span>;
  if (was === undefined || was === value) return written(value);
  return (
    <>
      {written(value)}
      <small className={isBetter(value, was) ? 'was better' : 'was worse'}>
        {t('evals.was', { before: written(was) })}
      </small>
    </>
  );
}
