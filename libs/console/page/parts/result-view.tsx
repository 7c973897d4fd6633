import { createContext, type ReactNode, useContext } from 'react';
import {
  type JsonObject,
  type JsonValue,
  type ToolPresentation,
  visible,
} from '@toolloop/protocol';
import { useWords } from '../shell/console-context.js';
import { nameOf } from './names.js';
import { isObject, moneyText, valueText } from './value-text.js';

const MOST_ROWS = 50;
const MOST_METRICS = 12;

type Form = NonNullable<ToolPresentation['result']>;

/**
 * A result in the form that its tool declares, or that its value suggests: rows as a table, a few
 * values as figures. What is not seen in it is written out, as {@link valueText} does.
 */
export function ResultView({
  value,
  form,
}: {
  readonly value: JsonValue;
  readonly form?: Form | undefined;
}): ReactNode {
  const shown = form ?? formOf(value);
  if (shown === 'table' && Array.isArray(value) && value.every(isObject))
    return <Table rows={value} />;
  if (shown === 'metrics' && isObject(value)) return <Metrics value={value} />;
  if (typeof value === 'string') return <p className="result-text">{visible(value)}</p>;
  return <pre className="json">{visible(JSON.stringify(value, null, 2))}</pre>;
}

function formOf(value: JsonValue): Form {
  if (Array.isArray(value))
    return value.length > 0 && value.every((row: JsonValue) => isObject(row) && isFlat(row))
      ? 'table'
      : 'json';
  if (!isObject(value)) return 'text';
  return isFlat(value) && Object.keys(value).length <= MOST_METRICS ? 'metrics' : 'json';
}

function Table({ rows }: { readonly rows: readonly JsonObject[] }): ReactNode {
  const words = useWords();
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <div className="table-frame" tabIndex={0} role="group" aria-label={words.t('result.table')}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {nameOf(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row, index) => (
            <tr key={index}>
              {columns.map((column) => (
                <td key={column} className={typeof row[column] === 'number' ? 'figure' : undefined}>
                  <Value value={row[column]} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && (
        <p className="muted">{words.t('result.more', { n: rows.length - MOST_ROWS })}</p>
      )}
    </div>
  );
}

function Metrics({ value }: { readonly value: JsonObject }): ReactNode {
  const words = useWords();
  const money = moneyText(value, words);
  if (money !== undefined) return <p className="metric-alone">{money}</p>;
  return (
    <dl className="metrics">
      {Object.entries(value).map(([name, one]) => (
        <div key={name}>
          <dt>{nameOf(name)}</dt>
          <dd>
            <Value value={one} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/**
 * The address at which the way of a value through its run is shown; absent where there is no such
 * page.
 */
export const ValueAddress = createContext<((value: string) => string) | undefined>(undefined);

const SHORTEST_LINKED = 2;

/** A value that leads to its way through the run, where there is one to show. */
function Value({ value }: { readonly value: JsonValue | undefined }): ReactNode {
  const words = useWords();
  const addressOf = useContext(ValueAddress);
  const text = valueText(value, words);
  if (
    !addressOf ||
    (typeof value !== 'string' && typeof value !== 'number') ||
    String(value).length < SHORTEST_LINKED
  )
    return text;
  return (
    <a className="value" href={addressOf(String(value))} title={words.t('path.of')}>
      {text}
    </a>
  );
}

function isFlat(value: JsonObject): boolean {
  return Object.values(value).every(
    (one) =>
      isScalar(one) ||
      (isObject(one) && 'currency' in one) ||
      (Array.isArray(one) && one.every(isScalar)),
  );
}

function isScalar(value: JsonValue | undefined): boolean {
  return typeof value !== 'object' || value === null;
}
