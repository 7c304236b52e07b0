/**
 * Rules of the phase `live`: whether databases can be opened and have every migration, and whether
 * certificates are readable and valid.
 */
import { thrown } from '../routing/compile.ts';
import { readTlsOptions } from '../http/server/options.ts';
import { isMigratable, labelOf, type OpenMigrator } from '../db/migrations/start.ts';
import type { ApplicationView, ReportFinding } from './check.ts';

const MESSAGES: Readonly<Record<string, string>> = {
  pending: 'has not been applied',
  unfinished: 'was started without a transaction and has not finished',
  changed: 'has changed since it was applied',
};

/** SVC402: databases that cannot be opened, and migrations that have not been applied. */
export async function findMigrations(view: ApplicationView, report: ReportFinding): Promise<void> {
  for (const plugin of view.plugins) {
    if (!isMigratable(plugin)) continue;
    const subject = `database ${plugin.name}`;
    let open: OpenMigrator;
    try {
      open = await plugin.openMigrator({ onlyReads: true });
    } catch (error) {
      report(subject, `the database cannot be opened: ${thrown(error)}`, undefined, {
        remedy:
          'Correct the address of the database, start the database, or grant its user the missing rights',
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
                    'Restore the migration file as it was applied, and write the change as a new migration: svc migrate new <name>',
                }
              : {},
          );
      }
    } catch (error) {
      report(subject, `the migrations cannot be read: ${thrown(error)}`);
    } finally {
      await open[Symbol.asyncDispose]();
    }
  }
}

/**
 * SVC405: certificates in the settings that are expired or unreadable or do not match their key. The rule
 * does not see certificates that code passes to run().
 */
export async function findCertificates(
  { settings, nowMs }: ApplicationView,
  report: ReportFinding,
): Promise<void> {
  const [cert, key] = [settings.peek('tlsCert'), settings.peek('tlsKey')];
  if (cert === undefined && key === undefined) return;
  try {
    const { examinePair } = await import('../http/server/tls.ts');
    // cert or key is set, so readTlsOptions() returns an object
    for (const problem of examinePair(readTlsOptions({}, settings)!, nowMs)) report('SVC_TLS_CERT', problem);
  } catch (error) {
    report('SVC_TLS_CERT', thrown(error));
  }
}
