import { type ReactNode, useCallback } from 'react';
import type { PutPolicies } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Locked } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import { KillSwitch } from './kill-switch.js';
import { DraftItem, VersionItem } from './policy-version.js';

const STOPS = 'stops';
const DRAFT = 'draft';

/**
 * The policies of the tenant, which narrow those of the application: their versions, what another
 * one would have decided, and what is stopped.
 */
function PoliciesScreen({ selected }: { readonly selected: string | undefined }): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const maySee = session.may.includes('policy');
  const load = useCallback(
    async () => (maySee ? withStarted(await client.request('GET /policies', {})) : []),
    [client, maySee],
  );
  const { value: versions, error, reload } = useLoaded(load);
  const chosen = maySee ? selected : STOPS;
  const version =
    chosen === undefined
      ? versions?.[0]
      : versions?.find(({ number }) => String(number) === chosen);
  return (
    <div className="policies split">
      <section className="list" aria-label={t('nav.policies')}>
        <header className="bar-top">
          <h1>{t('nav.policies')}</h1>
          {maySee && <DraftLink isChosen={chosen === DRAFT} />}
        </header>
        <ul className="rows">
          <SwitchRow isChosen={chosen === STOPS} />
        </ul>
        <section className="tool-group">
          <h2>{t('policies.versions')}</h2>
          {maySee ? (
            <Versions versions={versions} chosen={version} />
          ) : (
            <Locked permission="policy" />
          )}
          {error && <Failed error={error} retry={reload} />}
          {!versions && !error && <Loading />}
        </section>
      </section>
      {chosen === STOPS && <KillSwitch />}
      {chosen === DRAFT && versions?.[0] && <DraftItem newest={versions[0]} onPut={reload} />}
      {version && versions && (
        <VersionItem
          key={version.number}
          version={version}
          newest={versions[0] ?? version}
          onPut={reload}
        />
      )}
    </div>
  );
}
export default PoliciesScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** The versions with the one that the application starts with behind them. */
function withStarted(put: readonly PutPolicies[]): readonly PutPolicies[] {
  return [...put, { number: 0, author: '', reason: '', at: new Date(0).toISOString() }];
}

function DraftLink({ isChosen }: { readonly isChosen: boolean }): ReactNode {
  const { t } = useConsole().words;
  return (
    <a
      className="button"
      href={hrefOf('policies', DRAFT)}
      aria-current={isChosen ? 'page' : undefined}
    >
      <Icon name="plus" size={16} /> {t('policies.draft')}
    </a>
  );
}

/** The way to the kill switch, above the versions. */
function SwitchRow({ isChosen }: { readonly isChosen: boolean }): ReactNode {
  const { t } = useConsole().words;
  return (
    <li>
      <a
        href={hrefOf('policies', STOPS)}
        className="row"
        aria-current={isChosen ? 'true' : undefined}
      >
        <span className="row-kind effect-external_side_effect">
          <Icon name="stop" size={17} />
        </span>
        <span className="row-words">
          <strong>{t('policies.switch')}</strong>
          <small className="muted">{t('policies.switchLead')}</small>
        </span>
      </a>
    </li>
  );
}

interface VersionsProps {
  readonly versions: readonly PutPolicies[] | undefined;
  readonly chosen: PutPolicies | undefined;
}

function Versions({ versions = [], chosen }: VersionsProps): ReactNode {
  return (
    <ul className="rows">
      {versions.map((version, index) => (
        <VersionRow
          key={version.number}
          version={version}
          isInForce={index === 0}
          isChosen={version === chosen}
        />
      ))}
    </ul>
  );
}

interface VersionRowProps {
  readonly version: PutPolicies;
  readonly isInForce: boolean;
  readonly isChosen: boolean;
}

function VersionRow({
  version: { number, author, reason, at, rollbackOf },
  isInForce,
  isChosen,
}: VersionRowProps): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const said =
    number === 0
      ? t('policies.started')
      : [
          author,
          words.ago(at),
          rollbackOf === undefined ? reason : t('policies.rollbackOf', { n: rollbackOf }),
        ].join(' · ');
  return (
    <li>
      <a
        href={hrefOf('policies', String(number))}
        className="row"
        aria-current={isChosen ? 'true' : undefined}
      >
        <span className={isInForce ? 'row-kind effect-read_only' : 'row-kind'}>
          <Icon name={isInForce ? 'check' : 'audit'} size={17} />
        </span>
        <span className="row-words">
          <strong>
            {t('policies.version', { n: number })}{' '}
            {isInForce && <span className="muted">· {t('policies.inForce')}</span>}
          </strong>
          <small className="muted">{said}</small>
        </span>
      </a>
    </li>
  );
}
