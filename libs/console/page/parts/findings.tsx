import type { ReactNode } from 'react';
import type { Finding } from '@toolloop/protocol';
import { useWords } from '../shell/console-context.js';
import { Icon } from './icon.js';

/** What is not well, where, and what to do about it. */
export function Findings({ findings }: { readonly findings: readonly Finding[] }): ReactNode {
  const { t } = useWords();
  return (
    <section className="findings" aria-label={t('findings.title')}>
      <h2>{t('findings.title')}</h2>
      <ul>
        {findings.map(({ at, problem, remedy }) => (
          <li key={`${at} ${problem}`}>
            <Icon name="alert" size={17} />
            <div>
              <strong className="code">{at}</strong>
              <p>{problem}</p>
              <p className="muted">
                {t('findings.remedy')} {remedy}
              </p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
