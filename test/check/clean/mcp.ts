// awaits: mountMcp
// env: SVC_AUTH_SECRET={secret}
/** A calendar for MCP clients: every tool has a description, and other routes are excluded. */
import {
  Depends,
  Field,
  NotFound,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  date,
  datetime,
  list,
  requireScopes,
  str,
  uuid,
} from 'svc';

class NewAppointment extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120, description: 'Subject of the appointment.' });
  from = Field(datetime, { description: 'Start of the appointment.' });
  until = Field(datetime, { description: 'End of the appointment.' });
}
class Appointment extends Schema {
  id = Field(uuid);
  title = Field(str, { maxLength: 120 });
  from = Field(datetime);
  until = Field(datetime);
}

interface Row {
  id: string;
  title: string;
  from: Date;
  until: Date;
}
const rows = new Map<string, Row>();

export const app: Svc = new Svc({ title: 'Calendar', version: '2.0.0', trustProxy: 1, maxBodyBytes: 20_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 120 }));

app.get(
  '/appointments',
  {
    name: 'list-appointments',
    me: Depends(requireScopes('calendar')),
    query: { day: Field(date) },
    response: list(Appointment),
    mcp: true,
    summary: 'The appointments of a day',
    description: 'Returns the appointments that begin on the day, earliest first.',
  },
  ({ me, query }) =>
    [...rows.values()].filter(
      ({ from, title }) => from.toISOString().startsWith(query.day) && title !== me.sub,
    ),
);
app.get(
  '/appointments/{id:uuid}',
  {
    name: 'get-appointment',
    me: Depends(requireScopes('calendar')),
    response: Appointment,
    mcp: true,
    summary: 'One appointment',
  },
  ({ me, params }) => {
    const row = rows.get(params.id);
    if (row === undefined || me.sub === '') throw new NotFound('the appointment does not exist');
    return row;
  },
);
app.post(
  '/appointments',
  {
    name: 'add-appointment',
    me: Depends(requireScopes('calendar')),
    body: NewAppointment,
    response: Appointment,
    status: 201,
    mcp: true,
    summary: 'Make an appointment',
    description: 'Makes an appointment. It may overlap other appointments.',
  },
  ({ me, body }) => {
    const row: Row = {
      id: '00000000-0000-4000-8000-000000000001',
      title: `${body.title} (${me.sub})`.slice(0, 120),
      from: body.from,
      until: body.until,
    };
    rows.set(row.id, row);
    return row;
  },
);
app.delete(
  '/appointments/{id:uuid}',
  {
    name: 'cancel-appointment',
    me: Depends(requireScopes('calendar')),
    status: 204,
    mcp: true,
    summary: 'Cancel an appointment',
    description: 'Removes an appointment permanently, without a notification.',
  },
  ({ me, params }) => {
    if (me.sub !== '') rows.delete(params.id);
  },
);
app.delete(
  '/appointments',
  {
    me: Depends(requireScopes('calendar:admin')),
    status: 204,
    mcp: false,
    description: 'Removes all appointments.',
  },
  ({ me }) => {
    if (me.sub !== '') rows.clear();
  },
);

(app as unknown as { mountMcp(path: string): unknown }).mountMcp('/mcp');
