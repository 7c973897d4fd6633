import { type ReactNode, type SubmitEvent, useMemo } from 'react';
import type { RunView } from '@toolloop/react';
import { Icon } from '../parts/icon.js';
import { nameOf } from '../parts/names.js';
import { useConsole } from '../shell/console-context.js';
import { go } from '../shell/route.js';
import { pathOf, type ValuePath, type ValuePlace } from './value-path.js';

interface ValuePathViewProps {
  readonly run: RunView;
  readonly runId: string;
  readonly value: string | undefined;
}

/** Where a value of a run was read, and each call that it reached. */
export function ValuePathView({ run, runId, value }: ValuePathViewProps): ReactNode {
  const { t } = useConsole().words;
  const path = useMemo(() => (value === undefined ? undefined : pathOf(value, run)), [value, run]);
  return (
    <div className="value-path">
      <ValueForm runId={runId} value={value} />
      {!path && <p className="muted">{t('path.lead')}</p>}
      {path && (
        <ol className="way" aria-label={t('path.way', { value: value ?? '' })}>
          <Stage
            title={t('path.read')}
            places={path.read}
            runId={runId}
            part="result"
            none={t('path.notRead')}
          />
          <Stage
            title={t('path.reached')}
            places={path.reached}
            runId={runId}
            part="args"
            none={t('path.notReached')}
          />
          {path.said.length > 0 && <Answers said={path.said} />}
        </ol>
      )}
    </div>
  );
}

/** The field in which a person types the value to look for; the address keeps it. */
function ValueForm({ runId, value }: Pick<ValuePathViewProps, 'runId' | 'value'>): ReactNode {
  const { t } = useConsole().words;
  const look = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget).get('value');
    if (typeof typed === 'string' && typed.trim() !== '') go('runs', runId, 'path', typed.trim());
  };
  return (
    <form className="beside-form" onSubmit={look}>
      <label className="field">
        <span>{t('path.value')}</span>
        <input
          key={value}
          name="value"
          required
          defaultValue={value}
          className="code"
          maxLength={500}
          autoComplete="off"
        />
      </label>
      <button type="submit" className="button primary">
        <Icon name="path" size={16} /> {t('path.find')}
      </button>
    </form>
  );
}

/** The texts of the model in which the value stands. */
function Answers({ said }: Pick<ValuePath, 'said'>): ReactNode {
  const { t } = useConsole().words;
  return (
    <li>
      <h2>{t('path.said')}</h2>
      <ul>
        {said.map(({ step, text }) => (
          <li key={step} className="place">
            <span className="muted">{t('path.step', { n: step })}</span> {text}
          </li>
        ))}
      </ul>
    </li>
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
              <strong>{nameOf(call.tool, call.presentation)}</strong>{' '}
              <span className="code muted">{call.tool}</span>
              <br />
              <span className="small">
                <span className="muted">{t('path.step', { n: call.step })}</span> ·{' '}
                <code className="code">{at === '' ? '/' : at}</code>
              </span>
            </span>
            {part === 'result' && call.isOfOthers && (
              <span className="chip caution">{t('call.ofOthers')}</span>
            )}
            {part === 'args' && call.effect && (
              <span className={`chip effect-${call.effect}`}>{t(`effect.${call.effect}`)}</span>
            )}
          </li>
        ))}
      </ul>
    </li>
  );
}
