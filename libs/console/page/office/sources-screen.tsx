import { type ReactNode, useCallback, useState } from 'react';
import type { ListedSource } from '@toolloop/client';
import { Findings } from '../parts/findings.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Locked, Notice, Problem } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';

/**
 * The sources of tools: how they are, what they offer, what is pinned of it, and what is kept out.
 */
function SourcesScreen(): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  return (
    <div className="page sources">
      <header className="bar-top">
        <h1>{t('nav.sources')}</h1>
      </header>
      {session.may.includes('sources') ? <Sources /> : <Locked permission="sources" />}
    </div>
  );
}
export default SourcesScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

function Sources(): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const load = useCallback(() => client.request('GET /sources', {}), [client]);
  const { value, error, reload } = useLoaded(load);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading rows={6} />;
  return (
    <>
      {value.sources.length === 0 && (
        <Notice icon="source" title={t('sources.empty')}>
          {t('sources.emptyLead')}
        </Notice>
      )}
      {value.sources.map((source) => (
        <Source key={source.prefix ?? source.source} source={source} onAsked={reload} />
      ))}
      {value.findings.length > 0 && <Findings findings={value.findings} />}
    </>
  );
}

const STATES = { starting: 'caution', ready: 'effect-read_only', unreachable: 'danger' } as const;

function Source({
  source,
  onAsked,
}: {
  readonly source: ListedSource;
  readonly onAsked: () => void;
}): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const { prefix, trusted, state, since, tools, quarantined, leftOut, lastError } = source;
  return (
    <section className="source" aria-label={source.source}>
      <header className="heading">
        <div>
          <h2>{source.source}</h2>
          <ul className="chips">
            <li className={`chip ${STATES[state]}`}>{t(`source.${state}`)}</li>
            <li className="chip">{words.ago(since)}</li>
            <li className={trusted ? 'chip' : 'chip caution'}>
              {t(trusted ? 'source.trusted' : 'source.stranger')}
            </li>
            {prefix !== undefined && <li className="chip code">{prefix}__*</li>}
          </ul>
        </div>
        <div className="actions">
          {session.everywhere.includes('sources') && (
            <AskAgain name={prefix ?? source.source} onAsked={onAsked} />
          )}
          {session.may.includes('killSwitch') && (
            <a className="button danger" href={hrefOf('policies', 'stops')}>
              <Icon name="stop" size={16} /> {t('policies.switch')}
            </a>
          )}
        </div>
      </header>
      {lastError !== undefined && <p className="problem">{lastError}</p>}
      <Offered tools={tools} trusted={trusted} />
      {quarantined.length > 0 && <Quarantine tools={quarantined} />}
      {leftOut > 0 && <p className="muted">{t('source.leftOut', { n: leftOut })}</p>}
    </section>
  );
}

function AskAgain({
  name,
  onAsked,
}: {
  readonly name: string;
  readonly onAsked: () => void;
}): ReactNode {
  const { client, words } = useConsole();
  const [problem, setProblem] = useState<string>();
  const ask = (): void => {
    client
      .request('POST /sources/:name/refresh', { name })
      .then(onAsked, (error: unknown) =>
        setProblem(error instanceof Error ? error.message : String(error)),
      );
  };
  return (
    <>
      <button type="button" className="button" onClick={ask}>
        {words.t('source.refresh')}
      </button>
      <Problem text={problem} />
    </>
  );
}

const MOST_ROWS = 100;
const HASH_SHOWN = 12;

function Offered({ tools, trusted }: Pick<ListedSource, 'tools' | 'trusted'>): ReactNode {
  const { t } = useConsole().words;
  if (tools.length === 0) return <p className="muted">{t('source.noTools')}</p>;
  return (
    <div className="table-frame" tabIndex={0} role="group" aria-label={t('source.offered')}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t('call.tool')}</th>
            <th scope="col">{t('source.effect')}</th>
            <th scope="col">{t('source.pin')}</th>
          </tr>
        </thead>
        <tbody>
          {tools.slice(0, MOST_ROWS).map(({ declaredId, effect, schemaHash, pinned }) => (
            <tr key={declaredId}>
              <td>
                <a className="code" href={hrefOf('tools', declaredId)}>
                  {declaredId}
                </a>
              </td>
              <td>{t(`effect.${effect}`)}</td>
              <td>
                <span className={pinned || trusted ? 'muted' : 'warning-line'}>
                  {t(pinned ? 'source.pinned' : trusted ? 'source.noPin' : 'source.notPinned')}
                </span>{' '}
                <code className="code muted" title={schemaHash}>
                  {schemaHash.slice(0, HASH_SHOWN)}
                </code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {tools.length > MOST_ROWS && (
        <p className="muted">{t('result.more', { n: tools.length - MOST_ROWS })}</p>
      )}
    </div>
  );
}

/**
 * The tools that are kept out, each with its reason and with what a policy would say to let it in.
 */
function Quarantine({ tools }: { readonly tools: ListedSource['quarantined'] }): ReactNode {
  const { t } = useConsole().words;
  return (
    <section className="quarantine">
      <h3>
        <Icon name="lock" size={16} /> {t('source.quarantine', { n: tools.length })}
      </h3>
      <ul>
        {tools.map(({ id, reason, schemaHash }) => (
          <li key={id}>
            <strong className="code">{id}</strong>
            <p>{reason}</p>
            {schemaHash !== undefined && (
              <details className="schema">
                <summary>{t('source.letIn')}</summary>
                <pre className="json">
                  {JSON.stringify({ vouched: { [id]: { schemaHash } } }, null, 2)}
                </pre>
              </details>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
