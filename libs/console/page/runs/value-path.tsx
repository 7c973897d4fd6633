import { type ReactNode, type SubmitEvent, useMemo } from 'react';
import type { CallPart, RunView } from '@toolloop/react';
import type { JsonValue } from '@toolloop/protocol';
import { Icon } from '../parts/icon.js';
import { nameOf, textOf } from '../parts/names.js';
import { isObject } from '../parts/result-view.js';
import { useConsole } from '../shell/console-context.js';
import { go } from '../shell/route.js';

/** A place at which a value stands: in the result of a call, or in its arguments. */
interface ValuePlace {
  readonly call: CallPart;
  /** The JSON pointer. */
  readonly at: string;
}

/** The way of a value through a run: the results in which it was read, and the calls that it reached. */
export interface ValuePath {
  readonly read: readonly ValuePlace[];
  readonly reached: readonly ValuePlace[];
  /** The answers of the model that say it. */
  readonly said: readonly { readonly step: number; readonly text: string }[];
}

/** A shorter text stands in too many others by chance. */
const SHORTEST_PART = 4;
const MOST_PLACES = 100;

/** Finds the way of a value, by what people may see of the calls: their results and arguments, in the order in which they came. */
export function pathOf(value: string, run: RunView): ValuePath {
  const calls = callsIn(run);
  const wanted = value.trim().toLowerCase();
  const holds = (text: string): boolean => {
    const own = text.toLowerCase();
    return own === wanted || (wanted.length >= SHORTEST_PART && own.includes(wanted));
  };
  const placesIn = (part: (call: CallPart) => JsonValue | undefined): readonly ValuePlace[] =>
    calls
      .flatMap((call) =>
        leavesOf(part(call), '')
          .filter(({ text }) => holds(text))
          .map(({ at }) => ({ call, at })),
      )
      .slice(0, MOST_PLACES);
  const texts = run.parts.flatMap((part) => (part.kind === 'text' && wanted.length >= SHORTEST_PART ? [part] : []));
  return {
    read: placesIn(({ record }) => record?.result),
    reached: placesIn(({ args, record }) => ({ ...args, ...(record?.entity && { instance: record.entity.instanceId }) })),
    said: texts.filter(({ text }) => text.toLowerCase().includes(wanted)),
  };
}

/** The calls of a run, those of a sub-run behind the call that started it. */
export function callsIn(run: RunView): readonly CallPart[] {
  return run.parts.flatMap((part) => {
    if (part.kind !== 'call') return [];
    const inner = part.subRunId === undefined ? undefined : run.subRuns[part.subRunId];
    return inner ? [part, ...callsIn(inner)] : [part];
  });
}

/** A value without parts, and where it stands. */
interface Leaf {
  readonly at: string;
  readonly text: string;
}

function leavesOf(value: JsonValue | undefined, at: string): readonly Leaf[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one: JsonValue, index) => leavesOf(one, `${at}/${index}`));
  if (isObject(value))
    return Object.entries(value).flatMap(([name, one]) => leavesOf(one, `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`));
  return [{ at, text: textOf(value) }];
}

interface ValuePathViewProps {
  readonly run: RunView;
  readonly runId: string;
  readonly value: string | undefined;
}

/** Where a value of a run was read, and each call that it reached. */
export function ValuePathView({ run, runId, value }: ValuePathViewProps): ReactNode {
  const { t } = useConsole().words;
  const path = useMemo(() => (value === undefined ? undefined : pathOf(value, run)), [value, run]);
  const look = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget).get('value');
    if (typeof typed === 'string' && typed.trim() !== '') go('runs', runId, 'path', typed.trim());
  };
  return (
    <div className="value-path">
      <form className="beside-form" onSubmit={look}>
        <label className="field">
          <span>{t('path.value')}</span>
          <input key={value} name="value" required defaultValue={value} className="code" maxLength={500} autoComplete="off" />
        </label>
        <button type="submit" className="button primary">
          <Icon name="path" size={16} /> {t('path.find')}
        </button>
      </form>
      {!path && <p className="muted">{t('path.lead')}</p>}
      {path && (
        <ol className="way" aria-label={t('path.way', { value: value ?? '' })}>
          <Stage title={t('path.read')} places={path.read} runId={runId} part="result" none={t('path.notRead')} />
          <Stage title={t('path.reached')} places={path.reached} runId={runId} part="args" none={t('path.notReached')} />
          {path.said.length > 0 && (
            <li>
              <h2>{t('path.said')}</h2>
              <ul>
                {path.said.map(({ step, text }) => (
                  <li key={step} className="place">
                    <span className="muted">{t('path.step', { n: step })}</span> {text}
                  </li>
                ))}
              </ul>
            </li>
          )}
        </ol>
      )}
    </div>
  );
}

interface StageProps {
  readonly title: string;
  readonly places: readonly ValuePlace[];
  readonly runId: string;
  readonly part: 'result' | 'args';
  readonly none: string;
}

function Stage({ title, places, part, none }: StageProps): ReactNode {
  const { t } = useConsole().words;
  return (
    <li>
      <h2>{title}</h2>
      {places.length === 0 && <p className="muted">{none}</p>}
      <ul>
        {places.map(({ call, at }) => (
          <li key={`${call.since} ${at}`} className="place">
            <Icon name={part === 'result' ? 'open' : 'tools'} size={15} />
            <span>
              <strong>{nameOf(call.tool, call.presentation)}</strong> <span className="code muted">{call.tool}</span>
              <br />
              <span className="small">
                <span className="muted">{t('path.step', { n: call.step })}</span> · <code className="code">{at === '' ? '/' : at}</code>
              </span>
            </span>
            {part === 'result' && call.isOfOthers && <span className="chip caution">{t('call.ofOthers')}</span>}
            {part === 'args' && call.effect && <span className={`chip effect-${call.effect}`}>{t(`effect.${call.effect}`)}</span>}
          </li>
        ))}
      </ul>
    </li>
  );
}
