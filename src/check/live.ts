/**
 * The checks that ask: whether databases can be reached, and have all their migrations; whether certificates can be read, and last.
 */
import { thrown } from '../routing/compile.ts';
import { readTlsOptions } from '../http/server/options.ts';
import { isMigratable, labelOf, type OpenMigrator } from '../db/migrations/start.ts';
import type { ApplicationView, ReportFinding } from './check.ts';

const MESSAGES: Readonly<Record<string, string>> = {
  pending: 'has not been applied',
  unfinished: 'was begun without a transaction, and has not ended',
  changed: 'has changed since it was applied',
};

/** SVC402, for each database of the application. */
export async function findMigrations(view: ApplicationView, report: ReportFinding): Promise<void> {
  for (const plugin of view.plugins) {
    if (!isMigratable(plugin)) continue;
    const subject = `database ${plugin.name}`;
    let open: OpenMigrator;
    try {
      open = await plugin.openMigrator({ onlyReads: true });
    } catch (error) {
      report(subject, `it cannot be opened: ${thrown(error)}`, undefined, {
        remedy: 'Mend the address, start the database, or give this user the rights',
      });
      continue;
    }
    try {
      for (const each of await open.migrator.status()) {
        const message = MESSAGES[each.state];
        if (message !== undefined)
          report(
            subject,
            `${labelOf(each)} ${message}`,
            undefined,
            each.state === 'changed'
              ? {
                  remedy:
                    'Put back what it was, and write what is new as another migration: svc migrate new <name>',
                }
              : {},
          );
      }
    } catch (error) {
      report(subject, `its migrations cannot be read: ${thrown(error)}`);
    } finally {
      await open[Symbol.asyncDispose]();
    }
  }
}

/** SVC405: the certificate that the settings name. One that a program hands to run() is not known before it runs. */
export async function findCertificates(
  { settings, nowMs }: ApplicationView,
  report: ReportFinding,
): Promise<void> {
  const [cert, key] = [settings.peek('tlsCert'), settings.peek('tlsKey')];
  if (cert === undefined && key === undefined) return;
  try {
    const { examinePair } = await import('../http/server/tls.ts');
    for (const problem of examinePair(readTlsOptions({}, settings)!, nowMs)) report('SVC_TLS_CERT', problem); // one of the two is there
  } catch (error) {
    report('SVC_TLS_CERT', thrown(error));
  }
}
